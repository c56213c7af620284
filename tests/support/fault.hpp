#pragma once

#include <map>
#include <string>

namespace attnctl::test {

/// The environment in which a program's calls fail, for RunOptions::environment. `fault` is
/// CALL:WHAT[:AFTER]:
///
/// CALL   write (pwrite too), read (pread too), fsync, close (of files open for writing), rename, exchange
///        (renameat2), create (open with O_CREAT), open. All but rename, exchange, create and open look at
///        regular files alone.
/// WHAT   an errno: ENOSPC EIO EDQUOT EROFS EACCES EPERM EFBIG EMFILE EPIPE EXDEV EINVAL;
///        EINTR: every other call is interrupted and then works; SHORT: every transfer does half;
///        KILL, INT, TERM: the signal arrives at that point, and the call works.
/// AFTER  bytes (of write and read) or calls that succeed before; 0 by default.
///
/// Or "unknown_cpu": OpenBLAS chooses the kernel that it falls back to on CPUs that it does not know.
///
/// `path`: only files whose path contains it. Example: write:ENOSPC:4096.
std::map<std::string, std::string> with_fault(const std::string& fault, const std::string& path = "");

}  // namespace attnctl::test
