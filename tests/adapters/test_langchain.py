"""LangChain agents and LangGraph, with a scripted model."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.adapters import scenario
from tests.adapters.scenario import (
    CALLED,
    FAILING,
    Harness,
    Laws,
    Reports,
    Trace,
    message_for,
    run_page,
    tools_of,
)
from toolroll import Context, InvalidInput, Rule, Toolroll

pytest.importorskip("langchain.agents.middleware")
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import Command

from toolroll.adapters.langchain import ToolSelectorMiddleware

IDS = count()


class Model(BaseChatModel):
    """Replies with what it is told to, and keeps the tools of each request."""

    queue: list[AIMessage]
    sent: list[list[Any]]

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        self.sent.append(list(tools))
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        return ChatResult(generations=[ChatGeneration(message=self.queue.pop(0))])

    def then(self, *steps):
        self.sent.clear()
        self.queue[:] = [calls(*names) for names in steps] + [AIMessage("done")]
        return self


def calls(*names: str) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": n, "args": {"target": "x"}, "id": f"id{next(IDS)}"} for n in names]
    )


def names_of(tools: list[Any]) -> list[str]:
    return [one.name if hasattr(one, "name") else str(one.get("type")) for one in tools]


class LangChain(Harness):
    make_tool = staticmethod(StructuredTool.from_function)

    def build(self, tools, roll, **options):
        self.model = Model(queue=[], sent=[])
        # ---- what the user writes
        selects = ToolSelectorMiddleware(roll, **options)
        answers = ToolErrorMiddleware(lambda error, request: f"failed: {error}")
        self.agent = create_agent(
            self.model, tools=tools, middleware=[answers, selects], checkpointer=InMemorySaver()
        )

    def say(self, message, *steps, conversation="c"):
        self.model.then(*steps)
        config = {"configurable": {"thread_id": conversation}}
        state = self.agent.invoke({"messages": [("user", message)]}, config)
        return trace_of(self.model, state)


class LangChainAsync(LangChain):
    def say(self, message, *steps, conversation="c"):
        self.model.then(*steps)
        config = {"configurable": {"thread_id": conversation}}
        state = asyncio.run(self.agent.ainvoke({"messages": [("user", message)]}, config))
        return trace_of(self.model, state)


class LangChainStateless(LangChain):
    """Without a thread: the caller sends the whole conversation each time."""

    def build(self, tools, roll, **options):
        self.model, self.histories = Model(queue=[], sent=[]), {}
        selects = ToolSelectorMiddleware(roll, **options)
        answers = ToolErrorMiddleware(lambda error, request: f"failed: {error}")
        self.agent = create_agent(self.model, tools=tools, middleware=[answers, selects])

    def say(self, message, *steps, conversation="c"):
        self.model.then(*steps)
        history = self.histories.setdefault(conversation, [])
        state = self.agent.invoke({"messages": [*history, ("user", message)]})
        self.histories[conversation] = state["messages"]
        return trace_of(self.model, state)


class LangGraph(LangChain):
    """The graph of docs/frameworks/langgraph.md."""

    def build(self, tools, roll, **options):
        self.model = Model(queue=[], sent=[])
        with pytest.MonkeyPatch.context() as patch:
            own = partial(ToolSelectorMiddleware, roll, **options)
            patch.setattr("toolroll.adapters.langchain.ToolSelectorMiddleware", own)
            page = run_page("langgraph", model=self.model, tools=tools, checkpointer=InMemorySaver())
        self.agent = page["agent"]


def trace_of(model: Model, state: Any) -> Trace:
    messages = state["messages"]
    last = max(at for at, one in enumerate(messages) if one.type == "human")
    answers = [one.text for one in messages[last:] if one.type == "tool"]
    return Trace([names_of(tools) for tools in model.sent], answers, messages[-1].text)


class TestLangChain(Laws):
    harness = LangChain


class TestLangGraph(Laws):
    harness = LangGraph


class TestLangChainAsync(Laws):
    harness = LangChainAsync


class TestLangChainStateless(Laws):
    harness = LangChainStateless


HARNESS = LangChain
FIRST, SECOND = scenario.dialog(2, scenario.FEW)
TOOLS = tools_of(LangChain)


@pytest.fixture(autouse=True)
def nothing_called():
    CALLED.clear()
    FAILING.clear()


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def roll(reports) -> Toolroll:
    return Toolroll.from_tools([], observers=[reports])


def test_it_takes_the_arguments_of_the_llm_tool_selector():
    import inspect

    theirs = set(inspect.signature(LLMToolSelectorMiddleware).parameters)
    ours = set(inspect.signature(ToolSelectorMiddleware).parameters)
    assert theirs <= ours


def test_an_unknown_name_to_include_and_a_list_without_a_message_are_no_exceptions(roll):
    """langchain 35356: the LLM selector raises for names that are not there."""
    model = Model(queue=[], sent=[]).then()
    selects = ToolSelectorMiddleware(roll, max_tools=2, always_include=["no_such_tool", FIRST])
    agent = create_agent(model, tools=TOOLS, middleware=[selects])
    agent.invoke({"messages": [("assistant", "Hello.")]})
    assert FIRST in names_of(model.sent[0]) and len(model.sent[0]) == 3


def test_the_providers_own_tools_and_the_order_of_the_list_are_kept(roll):
    model = Model(queue=[], sent=[])
    agent = create_agent(
        model,
        tools=[*TOOLS, {"type": "web_search"}],
        middleware=[ToolSelectorMiddleware(roll, max_tools=12)],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "c"}}
    model.then()
    agent.invoke({"messages": [("user", message_for(FIRST))]}, config)
    (before,) = map(names_of, model.sent)
    model.then()
    agent.invoke({"messages": [("user", "And what about it?")]}, config)
    (after,) = map(names_of, model.sent)
    assert before[0] == "web_search" and after[: len(before) - 6] == before[: len(before) - 6]


def test_a_tool_that_the_request_must_call_is_sent(roll):
    class Forced(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tool_choice=SECOND))

    model = Model(queue=[], sent=[]).then()
    agent = create_agent(model, tools=TOOLS, middleware=[Forced(), ToolSelectorMiddleware(roll, max_tools=2)])
    agent.invoke({"messages": [("user", message_for(FIRST))]})
    assert {FIRST, SECOND} <= set(names_of(model.sent[0]))


def test_a_call_that_waits_for_a_person_is_reported_when_it_ran(roll, reports):
    model, saver = Model(queue=[], sent=[]).then([FIRST]), InMemorySaver()

    def agent():
        approval = HumanInTheLoopMiddleware(interrupt_on={FIRST: True})
        middleware = [approval, ToolSelectorMiddleware(roll, max_tools=12)]
        return create_agent(model, tools=TOOLS, middleware=middleware, checkpointer=saver)

    config = {"configurable": {"thread_id": "c"}}
    state = agent().invoke({"messages": [("user", message_for(FIRST))]}, config)
    assert "__interrupt__" in state and reports.outcomes == [] and CALLED == []
    elsewhere = agent()  # another process: the middleware has seen nothing, the roll's store has
    elsewhere.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert CALLED == [FIRST] and reports.outcomes == [(FIRST, "succeeded")]
    assert len(set(reports.events)) == 1


def test_a_tool_that_interrupts_is_reported_once_it_is_through(roll, reports):
    from langgraph.types import interrupt

    @tool
    def ask_a_person(question: str) -> str:
        """Asks a person a question and waits for the answer."""
        return interrupt(question)

    model = Model(queue=[], sent=[])
    model.queue[:] = [
        AIMessage("", tool_calls=[{"name": "ask_a_person", "args": {"question": "?"}, "id": "1"}]),
        AIMessage("done"),
    ]
    middleware = [ToolSelectorMiddleware(roll, max_tools=3)]
    agent = create_agent(
        model, tools=[*TOOLS, ask_a_person], middleware=middleware, checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "c"}}
    agent.invoke({"messages": [("user", "Ask a person the question.")]}, config)
    assert reports.outcomes == []
    agent.invoke(Command(resume="yes"), config)
    assert reports.outcomes == [("ask_a_person", "succeeded")]


def test_a_call_that_is_tried_again_counts_as_it_ended(roll, reports):
    class Flaky:
        left = 1

    @tool
    def pay_the_bill(target: str) -> str:
        """Pays the bill of the restaurant."""
        if Flaky.left:
            Flaky.left -= 1
            raise RuntimeError("try again")
        return "paid"

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    model = Model(queue=[], sent=[]).then(["pay_the_bill"])
    middleware = [retry, ToolSelectorMiddleware(roll, max_tools=3)]
    agent = create_agent(model, tools=[*TOOLS, pay_the_bill], middleware=middleware)
    agent.invoke({"messages": [("user", "Pay the bill of the restaurant.")]})
    assert reports.outcomes == [("pay_the_bill", "failed"), ("pay_the_bill", "succeeded")]


def test_arguments_that_do_not_fit_are_no_failure_of_the_tool(roll, reports):
    model = Model(queue=[], sent=[])
    wrong = AIMessage("", tool_calls=[{"name": FIRST, "args": {"goal": 3}, "id": "1"}])
    model.queue[:] = [wrong, AIMessage("done")]
    agent = create_agent(model, tools=TOOLS, middleware=[ToolSelectorMiddleware(roll, max_tools=12)])
    agent.invoke({"messages": [("user", message_for(FIRST))]})
    assert reports.outcomes == [(FIRST, "called")] and CALLED == []


def test_a_sub_agent_with_a_catalog_of_its_own_shares_the_middleware(roll, reports):
    selects = ToolSelectorMiddleware(roll, max_tools=5)
    inner_model, outer_model = Model(queue=[], sent=[]), Model(queue=[], sent=[])
    inner = create_agent(inner_model, tools=TOOLS[:40], middleware=[selects])

    @tool
    def ask_the_specialist(task: str) -> str:
        """Gives a task to the specialist for all questions of money."""
        return inner.invoke({"messages": [("user", task)]})["messages"][-1].text

    mine = TOOLS[3].name
    inner_model.then([mine])
    outer_model.queue[:] = [
        AIMessage(
            "", tool_calls=[{"name": "ask_the_specialist", "args": {"task": message_for(mine)}, "id": "1"}]
        ),
        AIMessage("done"),
    ]
    outer = create_agent(
        outer_model,
        tools=[*TOOLS[40:], ask_the_specialist],
        middleware=[selects],
        checkpointer=InMemorySaver(),
    )
    outer.invoke(
        {"messages": [("user", "Give a task to the specialist for questions of money.")]},
        {"configurable": {"thread_id": "c"}},
    )
    assert [mine] == CALLED
    assert reports.outcomes == [(mine, "succeeded"), ("ask_the_specialist", "succeeded")]


def test_a_list_that_another_middleware_shortens_is_selected_from_as_it_is(roll):
    class Shortened(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=request.tools[:20]))

    model = Model(queue=[], sent=[]).then()
    agent = create_agent(
        model, tools=TOOLS, middleware=[Shortened(), ToolSelectorMiddleware(roll, max_tools=5)]
    )
    agent.invoke({"messages": [("user", message_for(FIRST))]})
    allowed = {one.name for one in TOOLS[:20]}
    assert 0 < len(model.sent[0]) <= 5 and set(names_of(model.sent[0])) <= allowed


def test_the_context_of_a_run_decides_what_its_user_may_have(reports):
    rules = [Rule("no", "deny", "user", {"user": "ann"}, tool=FIRST)]
    roll = Toolroll.from_tools([], rules=rules, observers=[reports])
    selects = ToolSelectorMiddleware(
        roll, max_tools=12, context=lambda runtime: Context(user=runtime.context)
    )
    model = Model(queue=[], sent=[])
    agent = create_agent(model, tools=TOOLS, middleware=[selects], context_schema=str)
    for user, has_it in (("ann", False), ("bob", True)):
        model.then([FIRST])
        agent.invoke({"messages": [("user", message_for(FIRST))]}, context=user)
        assert (FIRST in names_of(model.sent[0])) is has_it and (FIRST in CALLED) is has_it


def test_streamed_runs_select_refuse_and_report(roll, reports):
    model = Model(queue=[], sent=[]).then([FIRST])
    agent = create_agent(model, tools=TOOLS, middleware=[ToolSelectorMiddleware(roll, max_tools=12)])
    for _ in agent.stream({"messages": [("user", message_for(FIRST))]}, stream_mode="messages"):
        pass
    assert len(model.sent[0]) <= 12 and reports.outcomes == [(FIRST, "succeeded")] and reports.final == 1


def test_the_answer_to_a_hidden_call_is_an_error_message_of_that_call(roll):
    model = Model(queue=[], sent=[]).then([SECOND])
    agent = create_agent(model, tools=TOOLS, middleware=[ToolSelectorMiddleware(roll, max_tools=1)])
    state = agent.invoke({"messages": [("user", message_for(FIRST))]})
    (answer,) = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    assert answer.status == "error" and answer.name == SECOND and "was not offered" in answer.text


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Model(queue=[], sent=[]).then()
    page = run_page("langchain", model=model, tools=TOOLS)
    assert len(model.sent[0]) <= 12 and page["state"]["messages"][-1].text == "done"
    with page["roll"]:
        model.then([FIRST])
        page["agent"].invoke(
            {"messages": [("user", message_for(FIRST))]}, {"configurable": {"thread_id": "c"}}
        )
    recording = page["roll"].health()["recording"]
    assert len(model.sent[0]) <= 12 and recording["keeper"]["counted"] == 1
    assert recording["outcomes"]["waiting_bytes"] == 0


@pytest.mark.parametrize("wrong", [{}, {"user": "ann"}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="context"):
        ToolSelectorMiddleware(context=wrong)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_unknown_name_is_answered_with_the_names_that_were_sent_and_no_others(reports, is_async):
    roll = Toolroll.from_tools([], rules=[Rule("no", "deny", "user", {"user": "ann"}, tool=SECOND)])
    selects = ToolSelectorMiddleware(roll, max_tools=3, context=Context(user="ann"))
    model = Model(queue=[], sent=[]).then(["no_such_tool"])
    agent = create_agent(model, tools=TOOLS, middleware=[selects])
    asked = {"messages": [("user", message_for(FIRST))]}
    state = asyncio.run(agent.ainvoke(asked)) if is_async else agent.invoke(asked)
    (answer,) = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    sent = names_of(model.sent[0])
    assert answer.status == "error" and all(name in answer.text for name in sent)
    assert not [
        one.name for one in TOOLS if one.name not in sent and one.name in answer.text.split("offered")[-1]
    ]


@pytest.mark.parametrize("thread", ["", "c" * 1_025])
def test_a_thread_that_is_no_name_is_refused(thread):
    agent = create_agent(Model(queue=[], sent=[]).then(), tools=TOOLS, middleware=[ToolSelectorMiddleware()])
    with pytest.raises(InvalidInput, match="thread_id: is .*, must be a name of 1 to 1,024 characters"):
        agent.invoke({"messages": [("user", "Hello.")]}, {"configurable": {"thread_id": thread}})


@pytest.mark.parametrize("handles", [True, False])
def test_arguments_that_do_not_fit_are_no_fault_of_the_tool_in_a_graph_of_ones_own(reports, handles):
    roll = Toolroll.from_tools([], observers=[reports])
    selects = ToolSelectorMiddleware(roll, max_tools=3)
    turn = selects.selector.turn(TOOLS, [HumanMessage(message_for(FIRST))], conversation="c")
    assert FIRST in turn.names
    wrappers = {"wrap_tool_call": selects.wrap_tool_call, "awrap_tool_call": selects.awrap_tool_call}
    node = ToolNode(TOOLS, handle_tool_errors=handles, **wrappers)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    wrong = AIMessage("", tool_calls=[{"name": FIRST, "args": {"target": {"no": "text"}}, "id": "1"}])
    with nullcontext() if handles else pytest.raises(ToolInvocationError):
        graph.invoke({"messages": [wrong]}, {"configurable": {"thread_id": "c"}})
    assert [outcome for _, outcome in reports.outcomes] == ["called"]
