#include "base/files/input_stream.hpp"

#include <unistd.h>
#include <utility>

#include "base/error.hpp"
#include "base/files/descriptor.hpp"

namespace attnctl {

struct InputStream::State {
  Descriptor own;  // nothing for standard input, which is not ours to close
  int number = STDIN_FILENO;
  std::string name = "standard input";
  std::optional<std::uint64_t> length;
  std::uint64_t read = 0;
};

InputStream::InputStream(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  if (path == "-") return;
  RegularFile file = open_regular_file(path, Status::environment);
  state_->number = file.descriptor.number();
  state_->own = std::move(file.descriptor);
  state_->name = escaped(path.string());
  state_->length = file.length;
}

InputStream::~InputStream() = default;
InputStream::InputStream(InputStream&&) noexcept = default;
InputStream& InputStream::operator=(InputStream&&) noexcept = default;

std::size_t InputStream::read(std::span<char> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const std::size_t got =
        read_some(state_->number, state_->name, buffer.data() + filled, buffer.size() - filled);
    if (got == 0) break;
    filled += got;
  }
  state_->read += filled;
  if (filled < buffer.size() && state_->length && state_->read < *state_->length) {
    fail(Status::bad_input, "{}: was cut to {} of {} bytes while it was read", state_->name, state_->read,
         *state_->length);
  }
  return filled;
}

std::optional<std::uint64_t> InputStream::length() const {
  return state_->length;
}

const std::string& InputStream::name() const {
  return state_->name;
}

}  // namespace attnctl
