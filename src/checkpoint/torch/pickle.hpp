#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace attnctl {

/// A value of a pickle: small, without ownership, so that values may share and contain one another.
struct PickleValue {
  enum class Kind : std::uint8_t {
    mark,     // on the machine's stack alone
    none,     // None
    boolean,  // `number`
    integer,  // `number`, where it fits 64 bits
    wide,     // an integer that does not: its bytes, little-endian
    text,     // `length` bytes at offset `number`
    tuple,    // items(); of a dict the keys and values by turns
    list,
    dict,
    global,   // a row of the table of known names
    storage,  // storages()[number]
    tensor,   // tensors()[number]
    opaque    // something that is not looked at: a float, bytes, a device
  };
  Kind kind = Kind::none;
  std::uint32_t length = 0;
  std::int64_t number = 0;
};

[[nodiscard]] std::string_view name_of(PickleValue::Kind kind);  // "a tuple"

/// A reference to the elements of tensors, which lie outside the pickle.
struct PickleStorage {
  std::string_view key;
  std::optional<DType> dtype;  // nullopt: bytes
  std::int64_t count = 0;      // elements of the whole storage; bytes where there is no dtype
  std::int64_t view_offset = 0;
  std::int64_t view_count = 0;  // elements that a tensor may use, from view_offset on

  [[nodiscard]] std::size_t element_size() const { return dtype ? size_of(*dtype) : 1; }
};

/// What torch rebuilds a tensor from. `offset`, `shape` and `strides` are as the file gives them.
struct PickleTensor {
  std::size_t storage = 0;
  DType dtype = DType::f32;
  PickleValue offset;
  PickleValue shape;
  PickleValue strides;
};

/// One pickle of a PyTorch checkpoint (protocols 2 to 5), read without Python and without executing anything:
/// the opcodes that tensors, dictionaries and plain values need, and a table of the names that
/// torch.save writes for them. Anything else is refused by its name. Values refer to the text.
class Pickle {
 public:
  struct Source {
    std::string where;      // the file, and the member, as errors begin
    std::string_view text;  // outlives the pickle
    std::size_t begin = 0;  // offset of the pickle in it
  };

  /// Throws Error: bad_input for anything that is not such a pickle, limit where it makes more than 40 MiB of
  /// objects.
  explicit Pickle(Source source);

  [[nodiscard]] const PickleValue& root() const { return root_; }
  [[nodiscard]] std::size_t end() const { return end_; }  // offset behind it
  [[nodiscard]] const std::string& where() const { return source_.where; }

  /// Of a text, or of a wide integer.
  [[nodiscard]] std::string_view text(const PickleValue& value) const;
  /// Of a tuple, list or dict.
  [[nodiscard]] std::span<const PickleValue> items(const PickleValue& value) const;
  [[nodiscard]] std::span<const PickleStorage> storages() const { return storages_; }
  [[nodiscard]] std::span<const PickleTensor> tensors() const { return tensors_; }

 private:
  friend class Unpickler;

  Source source_;
  PickleValue root_;
  std::size_t end_ = 0;
  std::deque<std::vector<PickleValue>> nodes_;
  std::vector<PickleStorage> storages_;
  std::vector<PickleTensor> tensors_;
};

}  // namespace attnctl
