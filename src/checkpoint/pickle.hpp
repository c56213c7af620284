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

/// A value of a pickle. It owns nothing, so that values may share and contain each other.
struct PickleValue {
  enum class Kind : std::uint8_t {
    mark,     // only on the stack
    none,     // None
    boolean,  // `number`
    integer,  // `number`, if it fits 64 bits
    wide,     // an integer that does not fit: its little-endian bytes
    text,     // `length` bytes at offset `number`
    tuple,    // items(); those of a dict are keys and values in turn
    list,
    dict,
    global,   // index in the table of known names
    storage,  // storages()[number]
    tensor,   // tensors()[number]
    opaque    // an ignored value: a float, bytes, a device
  };
  Kind kind = Kind::none;
  std::uint32_t length = 0;
  std::int64_t number = 0;
};

[[nodiscard]] std::string_view name_of(PickleValue::Kind kind);  // "a tuple"

/// A reference to elements stored outside of the pickle.
struct PickleStorage {
  std::string_view key;
  std::optional<DType> dtype;  // nullopt: bytes
  std::int64_t count = 0;      // elements of the whole storage, or bytes without a dtype
  std::int64_t view_offset = 0;
  std::int64_t view_count = 0;  // elements from view_offset that a tensor may use

  [[nodiscard]] std::size_t element_size() const { return dtype ? size_of(*dtype) : 1; }
};

/// The arguments that torch rebuilds a tensor from. `offset`, `shape` and `strides` are unchecked.
struct PickleTensor {
  std::size_t storage = 0;
  DType dtype = DType::f32;
  PickleValue offset;
  PickleValue shape;
  PickleValue strides;
};

/// One pickle of a PyTorch checkpoint (protocols 2 to 5), read without executing anything. Supports the
/// opcodes of tensors, dictionaries and plain values, and the names that torch.save writes for them; all
/// others are errors.
class Pickle {
 public:
  struct Source {
    std::string where;      // the file and member, for messages
    std::string_view text;  // must outlive the pickle
    std::size_t begin = 0;  // offset of the pickle in the text
  };

  /// Throws Error(bad_input) for anything else, and Error(limit) if the objects need more than 40 MiB.
  explicit Pickle(Source source);

  [[nodiscard]] const PickleValue& root() const { return root_; }
  [[nodiscard]] std::size_t end() const { return end_; }  // offset after it
  [[nodiscard]] const std::string& where() const { return source_.where; }

  /// Returns the bytes of a text or a wide integer.
  [[nodiscard]] std::string_view text(const PickleValue& value) const;
  /// Returns the items of a tuple, list or dict.
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
