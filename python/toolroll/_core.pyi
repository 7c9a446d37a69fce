"""Types of the compiled module, by header."""

# cpu.hpp

def isa() -> str: ...
