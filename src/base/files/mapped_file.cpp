#include "base/files/mapped_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/files/descriptor.hpp"
#include "base/files/sigbus_guard.hpp"

namespace attnctl {

struct MappedFile::State {
  State(const std::filesystem::path& path, Status absent);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void check() const;

  std::string name;
  RegularFile file;
  std::span<const std::byte> bytes;
  std::optional<SigbusGuard> guard;

  /// All that are alive. Never destroyed: a mapped file may outlive the statics.
  struct Registry {
    std::mutex mutex;
    std::vector<const State*> states;
  };
  static Registry& registry() {
    static Registry& instance = *new Registry;  // NOLINT(cppcoreguidelines-owning-memory)
    return instance;
  }
};

MappedFile::State::State(const std::filesystem::path& path, Status absent)
    : name(path.string()), file(open_regular_file(path, absent)) {
  const auto length = checked_narrow<std::size_t>(file.length);
  if (!length)
    fail(Status::limit, "{}: {} bytes do not fit into memory's addresses", escaped(name), file.length);
  if (*length > 0) {
    void* const address = mmap(nullptr, *length, PROT_READ, MAP_PRIVATE, file.descriptor.number(), 0);
    if (address == MAP_FAILED) {
      fail(Status::environment, "{}: cannot map {} bytes: {}", escaped(name), *length, error_text(errno));
    }
    bytes = {static_cast<const std::byte*>(address), *length};
    try {
      guard.emplace(bytes);
    } catch (...) {
      munmap(address, *length);
      throw;
    }
  }
  const std::lock_guard lock(registry().mutex);
  registry().states.push_back(this);
}

MappedFile::State::~State() {
  {
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().states, this);
  }
  guard.reset();
  if (!bytes.empty()) munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
}

void MappedFile::State::check() const {
  struct stat status = {};
  if (fstat(file.descriptor.number(), &status) != 0) {
    fail(Status::environment, "{}: cannot examine: {}", escaped(name), error_text(errno));
  }
  const auto now = static_cast<std::uint64_t>(status.st_size);
  if (now != file.length) {
    fail(Status::bad_input, "{}: got {} bytes where there were {} when it was opened, need a file that stays",
         escaped(name), now, file.length);
  }
  if (guard && guard->faulted())
    fail(Status::environment, "{}: cannot read: Input/output error", escaped(name));
}

MappedFile::MappedFile(const std::filesystem::path& path, Status absent)
    : state_(std::make_unique<State>(path, absent)) {}
MappedFile::~MappedFile() = default;
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;

std::span<const std::byte> MappedFile::bytes() const {
  return state_->bytes;
}
const std::string& MappedFile::path() const {
  return state_->name;
}
void MappedFile::check() const {
  state_->check();
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  // The system maps what lies around a page that is read as well, so neighbours are given back with the part.
  constexpr std::uintptr_t around = std::uintptr_t{1} << 16U;
  const auto first = reinterpret_cast<std::uintptr_t>(bytes().data());
  const auto place = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t begin = std::max(place / around * around, first);
  const std::uintptr_t end =
      std::min((place + part.size() + around - 1) / around * around, first + bytes().size());
  // Advice: where it fails, memory stays in use, and that is all.
  madvise(const_cast<std::byte*>(bytes().data()) + (begin - first), end - begin, MADV_DONTNEED);
}

void check_mapped_files() {
  const std::lock_guard lock(MappedFile::State::registry().mutex);
  for (const MappedFile::State* state : MappedFile::State::registry().states) state->check();
}

}  // namespace attnctl
