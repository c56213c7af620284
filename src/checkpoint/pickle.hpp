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

namespace attnctl::checkpoint {

/// A value of a pickle. Large values are stored in the file or in the Pickle, and `number` refers to them, so
/// that values can be shared and can contain each other.
struct PickleValue {
  enum class Kind : std::uint8_t {
    mark,     // the opcode MARK; never a value of the result
    none,     // Python's None
    boolean,  // `number` is 0 or 1
    integer,  // `number`; only integers that are stored in at most 8 bytes
    wide,     // an integer of more than 8 bytes; text() returns its little-endian bytes
    text,     // `length` bytes at offset `number` of the file
    tuple,    // items() returns the elements
    list,     // items() returns the elements
    dict,     // items() returns keys and values in turn
    global,   // `number` is the index in the table of known names
    storage,  // the storage is Pickle::storages[number]
    tensor,   // the tensor is Pickle::tensors[number]
    opaque    // a value that is not kept: a float, bytes, a device
  };
  Kind kind = Kind::none;
  std::uint32_t length = 0;
  std::int64_t number = 0;
};

[[nodiscard]] std::string_view name_of(PickleValue::Kind kind);  // such as "a tuple"

/// A storage of torch: an array of elements that is stored outside of the pickle, and to which the pickle
/// refers.
struct PickleStorage {
  std::string_view key;        // name of the storage in the file
  std::optional<DType> dtype;  // type of the elements; nullopt: bytes without a type
  std::int64_t count = 0;      // number of elements in the whole storage
  std::int64_t view_offset = 0;
  std::int64_t view_count = 0;  // tensors may use `view_count` elements from `view_offset` on

  [[nodiscard]] std::size_t element_size() const { return dtype ? size_of(*dtype) : 1; }
};

/// The arguments from which torch rebuilds a tensor. `offset`, `shape` and `strides` are not checked.
struct PickleTensor {
  std::size_t storage = 0;
  DType dtype = DType::f32;
  PickleValue offset;
  PickleValue shape;
  PickleValue strides;
};

/// A pickle of a PyTorch checkpoint (protocols 2 to 5), read without executing any code. Supports tensors,
/// dictionaries and plain values: their opcodes, and the Python names that torch.save writes for them. All
/// other opcodes and names are errors.
struct Pickle {
  /// Reads the pickle at offset `begin` of `file`. Throws Error(bad_input) if the pickle is invalid or not
  /// supported, and Error(limit) if its objects need more than about 40 MiB of memory.
  Pickle(std::string where, std::string_view file, std::size_t begin);

  /// Returns the bytes of a value whose kind is `text` or `wide`.
  [[nodiscard]] std::string_view text(const PickleValue& value) const {
    return file.substr(static_cast<std::size_t>(value.number), value.length);
  }
  /// Returns the items of a value whose kind is `tuple`, `list` or `dict`.
  [[nodiscard]] std::span<const PickleValue> items(const PickleValue& value) const {
    return nodes.at(static_cast<std::size_t>(value.number));
  }

  std::string where;      // names of the file and the archive member, for messages
  std::string_view file;  // the bytes that contain the pickle; must outlive the Pickle
  std::size_t end = 0;    // offset in `file` after the pickle
  PickleValue root;
  std::deque<std::vector<PickleValue>> nodes;  // the items of tuples, lists and dicts
  std::vector<PickleStorage> storages;
  std::vector<PickleTensor> tensors;
};

}  // namespace attnctl::checkpoint
