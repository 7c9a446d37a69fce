"""Types of the compiled module, by header."""

import numpy as np
import numpy.typing as npt

# cpu.hpp

def isa() -> str: ...

# stream.hpp

def stream_bits(seed: int, key: int, counter: int, n: int) -> npt.NDArray[np.uint64]: ...

# thompson.hpp

def thompson_sample(
    key: npt.NDArray[np.uint64], alpha: npt.NDArray[np.float64], beta: npt.NDArray[np.float64], seed: int
) -> npt.NDArray[np.float64]: ...
def log_gamma_sample(
    key: npt.NDArray[np.uint64], shape: npt.NDArray[np.float64], seed: int
) -> npt.NDArray[np.float64]: ...
def thompson_rerank(
    key: npt.NDArray[np.uint64],
    alpha: npt.NDArray[np.float64],
    beta: npt.NDArray[np.float64],
    seed: int,
    rows: npt.NDArray[np.int32],
    scores: npt.NDArray[np.float32],
    weight: float,
    k: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float64]]: ...
