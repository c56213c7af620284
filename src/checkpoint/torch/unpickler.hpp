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
#include "checkpoint/torch/pickle.hpp"

namespace attnctl {

/// The meaning of a name in a pickle.
enum class PickleRole : std::uint8_t { storage, dtype, rebuild, parameter, ordered_dict, size, device };

/// A name that torch.save writes. All other names are errors.
struct PickleName {
  std::string_view name;  // with its module
  PickleRole role = PickleRole::device;
  std::optional<DType> dtype = std::nullopt;  // of a storage or dtype; nullopt: a storage of bytes
  std::size_t fewest = 0;                     // arguments of a call
  std::size_t most = 0;
  bool typed = false;  // rebuild: the seventh argument is the dtype
};

[[nodiscard]] std::span<const PickleName> pickle_names();

/// Returns "INST", "NEWOBJ", ...; "" for a byte that is not an opcode.
[[nodiscard]] std::string_view pickle_opcode_name(unsigned char op);

/// The stack machine that fills a Pickle (Python's pickletools describes the opcodes).
class Unpickler {
 public:
  explicit Unpickler(Pickle& pickle);
  void run();

 private:
  using Kind = PickleValue::Kind;

  // Each executes the opcodes of its group, and returns false for others.
  bool take_value(unsigned char op);
  bool take_container(unsigned char op);
  bool take_memo(unsigned char op);
  bool take_object(unsigned char op);

  void begin_protocol();
  void put_into_dict(std::span<const PickleValue> items);
  void put_into_list(std::span<const PickleValue> items);
  void remember(std::uint64_t index);
  void recall(std::uint64_t index);
  void push_text(std::uint64_t length);
  void push_opaque(std::uint64_t length);
  void push_integer(std::size_t length);
  void push_node(Kind kind, std::vector<PickleValue> items);
  void push_global(std::string_view module, std::string_view name);
  void push_storage(const PickleValue& id);
  void call(const PickleValue& callee, const PickleValue& arguments);
  void call_ordered_dict(std::span<const PickleValue> arguments);
  void call_rebuild(const PickleName& name, std::span<const PickleValue> arguments);

  void push(PickleValue value);
  PickleValue pop();
  PickleValue& top();
  PickleValue pop(Kind kind, std::string_view use);
  std::vector<PickleValue> pop_to_mark();
  void charge(std::size_t bytes);

  std::string_view take(std::uint64_t count);
  std::uint64_t number(std::size_t count);
  std::string_view line();
  [[noreturn]] void refuse(std::string_view what) const;
  void need_kind(const PickleValue& value, Kind kind, std::string_view use) const;

  Pickle& pickle_;
  std::string_view text_;
  std::size_t at_ = 0;    // offset of the current opcode
  std::size_t next_ = 0;  // offset of the next byte
  std::vector<PickleValue> stack_;
  std::deque<PickleValue> memo_;
  std::size_t charged_ = 0;
};

}  // namespace attnctl
