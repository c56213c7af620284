#pragma once

#include <map>
#include <string>

namespace attnctl::test {

/// Returns environment variables (for RunOptions::environment) that make system calls of a program fail.
/// `fault` has the form CALL:WHAT[:AFTER]:
///
/// CALL   write (also pwrite), read (also pread), fsync, close (of files open for writing), rename, exchange
///        (renameat2), create (open with O_CREAT or O_TMPFILE), tmpfile (open with O_TMPFILE), open (also
///        openat), stat (also lstat), fstat, ftruncate, link (linkat), mkdir, malloc (all allocations; in a
///        build with sanitizers, those of operator new), mmap, thread (pthread_create). write, read, fsync
///        and close fail for regular files only.
/// WHAT   an errno: ENOSPC EIO EDQUOT EROFS EACCES EPERM EFBIG EMFILE EPIPE EXDEV EINVAL ENOMEM EAGAIN;
///        EINTR: every second call is interrupted, the others work; SHORT: every call transfers half the
///        bytes; KILL, INT, TERM: the signal arrives at this call, and the call works.
/// AFTER  number of bytes (for write and read) or of calls that succeed first (default: 0). #N: number of
///        calls, also for write and read; #N:COUNT: after COUNT failures, calls succeed again.
///
/// `fault` may also be "unknown_cpu": OpenBLAS then chooses its fallback kernel for unknown CPUs.
///
/// `path` restricts the fault to files whose path contains it. A temporary file without a name has the path
/// FOLDER/.attnctl-. Example: write:ENOSPC:4096. If ATTNCTL_FAULT_CALLS is the name of a file, the number of
/// the first call with each call stack is written to it at the end (of allocations, and of calls that
/// transfer no bytes or are counted with #).
std::map<std::string, std::string> with_fault(const std::string& fault, const std::string& path = "");

}  // namespace attnctl::test
