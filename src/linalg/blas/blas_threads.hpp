#pragma once

namespace attnctl::linalg {

/// Makes BLAS and LAPACK single-threaded in the calling thread; called before every use of them, costs
/// nothing after the first. Threads are base/pool.hpp's: a library that makes threads of its own beside them
/// is several times slower. Once in a process is not enough: the OpenMP flavour of OpenBLAS counts its
/// threads anew in each thread that calls it, and starts as many as there are cores.
void keep_blas_single_threaded();

}  // namespace attnctl::linalg
