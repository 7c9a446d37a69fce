"""toolroll inside agent frameworks and monitoring systems: one file for each, and their common parts."""

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import SelectionOptions
from toolroll.adapters.tool_selector import ToolSelector

__all__ = ["AgentTurn", "SelectionOptions", "ToolSelector"]
