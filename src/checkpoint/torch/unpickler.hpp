#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/torch/pickle.hpp"
#include "checkpoint/torch/pickle_names.hpp"

namespace attnctl {

/// The stack machine that fills a Pickle (Python's pickletools describes the opcodes).
class Unpickler {
 public:
  explicit Unpickler(Pickle& pickle);
  void run();

 private:
  using Kind = PickleValue::Kind;

  // Each takes an opcode of its group; false where it is of another.
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
  std::size_t at_ = 0;      // offset of the opcode
  std::size_t behind_ = 0;  // of what follows
  std::vector<PickleValue> stack_;
  std::deque<PickleValue> memo_;
  std::size_t charged_ = 0;
};

}  // namespace attnctl
