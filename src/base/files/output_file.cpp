#include "base/files/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <climits>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/files/output_target.hpp"
#include "base/files/temporaries.hpp"
#include "base/interrupt.hpp"

namespace attnctl {

struct OutputFile::State {
  std::string name;
  OutputTarget target;
  std::size_t remembered = Temporaries::none;
  std::uint64_t flushed = 0;  // where the buffer's first byte goes
  std::vector<char> buffer;
  bool committed = false;
  bool whole_lines = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  explicit State(const std::filesystem::path& path);
  ~State();

  void put(std::uint64_t offset, const char* data, std::size_t size) const;
  void flush();
  void flush_lines();
  void copy_mode() const;
  void close_checked();
  void replace();
};

namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 16U;

/// How much of the lines goes out at once: what a pipe takes wholly or not at all, or one longer line.
std::size_t lines_at_once(std::string_view lines) {
  if (lines.size() <= PIPE_BUF) return lines.size();
  const std::size_t last = lines.rfind('\n', PIPE_BUF - 1);
  return 1 + (last != std::string_view::npos ? last : lines.find('\n', PIPE_BUF));
}

/// For a descriptor that somebody else made non-blocking.
void wait_until_writable(int descriptor) {
  pollfd polled{descriptor, POLLOUT, 0};
  ::poll(&polled, 1, -1);  // whatever it says, the next write says it better
}

}  // namespace

// After the delegated constructor the destructor cleans up whatever this body opened before it threw.
OutputFile::State::State(const std::filesystem::path& path) : State() {
  name = path == "-" ? "standard output" : escaped(path.native());
  buffer.reserve(buffer_size);
  target = open_target(path, name);
  if (!target.in_place) remembered = Temporaries::add(target.temporary);
}

OutputFile::State::~State() {
  if (target.descriptor >= 0) ::close(target.descriptor);
  if (!target.in_place && !committed) ::unlink(target.temporary.c_str());
  Temporaries::forget(remembered);
}

void OutputFile::State::put(std::uint64_t offset, const char* data, std::size_t size) const {
  while (size > 0) {
    throw_if_interrupted();
    const ssize_t written = target.in_place
                                ? ::write(target.descriptor, data, size)
                                : ::pwrite(target.descriptor, data, size, static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) throw BrokenPipe{};
      if (errno == EAGAIN) {
        wait_until_writable(target.descriptor);
        continue;
      }
      fail_with_errno(name, "write", errno);
    }
    const auto count = static_cast<std::size_t>(written);
    data += count;
    offset += count;
    size -= count;
  }
}

void OutputFile::State::flush() {
  put(flushed, buffer.data(), buffer.size());
  flushed += buffer.size();
  buffer.clear();
}

/// Hands on what is buffered up to the last end of a line.
void OutputFile::State::flush_lines() {
  std::string_view lines(buffer.data(), buffer.size());
  lines = lines.substr(0, lines.rfind('\n') + 1);
  const std::size_t whole = lines.size();
  while (!lines.empty()) {
    const std::size_t size = lines_at_once(lines);
    put(flushed, lines.data(), size);
    flushed += size;
    lines.remove_prefix(size);
  }
  buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(whole));
}

void OutputFile::State::copy_mode() const {
  if (!target.replaces) return;
  // Only root may give files away; for others the new file is simply theirs.
  [[maybe_unused]] const int ignored = ::fchown(target.descriptor, target.owner, target.group);
  if (::fchmod(target.descriptor, target.mode) != 0) fail_with_errno(name, "keep the file's mode", errno);
}

void OutputFile::State::close_checked() {
  if (::close(std::exchange(target.descriptor, -1)) != 0 && errno != EINTR) {
    fail_with_errno(name, "close", errno);
  }
}

void OutputFile::State::replace() {
  copy_mode();
  while (::fsync(target.descriptor) != 0) {
    if (errno != EINTR) fail_with_errno(name, "write to disk", errno);
    throw_if_interrupted();
  }
  close_checked();
  throw_if_interrupted();
  if (std::rename(target.temporary.c_str(), target.path.c_str()) != 0) {
    fail_with_errno(name, "replace", errno);
  }
  committed = true;
  sync_folder(std::filesystem::path(target.path).parent_path());
}

OutputFile::OutputFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}

OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

void OutputFile::write(std::string_view text) {
  State& state = *state_;
  if (state.whole_lines && text.find('\n') != std::string_view::npos) {
    state.buffer.insert(state.buffer.end(), text.begin(), text.end());
    return state.flush_lines();
  }
  if (state.buffer.size() + text.size() > buffer_size) state.flush();
  if (text.size() >= buffer_size) {
    state.put(state.flushed, text.data(), text.size());
    state.flushed += text.size();
  } else {
    state.buffer.insert(state.buffer.end(), text.begin(), text.end());
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::write_whole_lines() {
  state_->whole_lines = state_->target.in_place;
}

bool OutputFile::seekable() const {
  return !state_->target.in_place;
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!seekable()) fail(Status::environment, "{}: cannot seek", state_->name);
  state_->put(offset, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::uint64_t OutputFile::position() const {
  return state_->flushed + state_->buffer.size();
}

void OutputFile::seek(std::uint64_t offset) {
  if (!seekable()) fail(Status::environment, "{}: cannot seek", state_->name);
  state_->flush();
  state_->flushed = offset;
}

const std::string& OutputFile::name() const {
  return state_->name;
}

void OutputFile::commit() {
  State& state = *state_;
  state.flush();
  check_mapped_files();
  if (state.target.in_place) {
    state.close_checked();
  } else {
    state.replace();
  }
}

}  // namespace attnctl
