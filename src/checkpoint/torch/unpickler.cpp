#include "checkpoint/torch/unpickler.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

// Python writes dictionaries and lists in batches of a thousand, so no checkpoint fills this stack.
constexpr std::size_t kMaxPickleStack = std::size_t{1} << 16;
constexpr std::size_t kMaxPickleBytes = std::size_t{40} << 20;
constexpr std::size_t kNodeBytes = 64;  // a container with its allocation
constexpr unsigned kProto = 0x80;
constexpr unsigned kFrame = 0x95;

}  // namespace

Unpickler::Unpickler(Pickle& pickle)
    : pickle_(pickle),
      text_(pickle.source_.text),
      at_(std::min(pickle.source_.begin, text_.size())),
      next_(at_) {}

void Unpickler::run() {
  begin_protocol();
  for (;;) {
    at_ = next_;
    const auto op = static_cast<unsigned char>(number(1));
    if (op == '.') break;
    if (op == kFrame) {
      if (number(8) > text_.size() - next_) refuse("got a frame that exceeds the file");
    } else if (!take_value(op) && !take_container(op) && !take_memo(op) && !take_object(op)) {
      refuse(pickle_opcode_name(op).empty() ? fmt::format("unsupported opcode 0x{:02x}", op)
                                            : "unsupported opcode");
    }
  }
  pickle_.root_ = pop();
  if (!stack_.empty()) refuse("got values left on the stack, need one value");
  pickle_.end_ = next_;
}

void Unpickler::begin_protocol() {
  if (number(1) != kProto) refuse("got no PROTO at the beginning, need a pickle of protocol 2 to 5");
  const std::uint64_t protocol = number(1);
  if (protocol < 2 || protocol > 5)
    refuse(fmt::format("unsupported pickle protocol {}, need 2 to 5", protocol));
}

bool Unpickler::take_value(unsigned char op) {
  switch (op) {
    case 'N':
      push({Kind::none});
      return true;
    case 0x88:
    case 0x89:
      push({Kind::boolean, 0, op == 0x88 ? 1 : 0});
      return true;
    case 'K':
      push({Kind::integer, 0, static_cast<std::int64_t>(number(1))});
      return true;
    case 'M':
      push({Kind::integer, 0, static_cast<std::int64_t>(number(2))});
      return true;
    case 'J':
      push({Kind::integer, 0, static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)))});
      return true;
    case 0x8A:
      push_integer(static_cast<std::size_t>(number(1)));
      return true;
    case 'G':
      push_opaque(8);
      return true;
    case 'U':
    case 0x8C:
      push_text(number(1));
      return true;
    case 'T':
    case 'X':
      push_text(number(4));
      return true;
    case 0x8D:
      push_text(number(8));
      return true;
    case 'C':
      push_opaque(number(1));
      return true;
    case 'B':
      push_opaque(number(4));
      return true;
    default:
      return false;
  }
}

bool Unpickler::take_container(unsigned char op) {
  switch (op) {
    case '(':
      push({Kind::mark});
      return true;
    case ')':
      push_node(Kind::tuple, {});
      return true;
    case ']':
      push_node(Kind::list, {});
      return true;
    case '}':
      push_node(Kind::dict, {});
      return true;
    case 't':
      push_node(Kind::tuple, pop_to_mark());
      return true;
    case 0x85:
    case 0x86:
    case 0x87: {
      std::vector<PickleValue> items(op - 0x84U);
      for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
      push_node(Kind::tuple, std::move(items));
      return true;
    }
    case 'a': {
      const PickleValue item = pop();
      put_into_list({&item, 1});
      return true;
    }
    case 'e':
      put_into_list(pop_to_mark());
      return true;
    case 's': {
      const PickleValue value = pop();
      const std::array<PickleValue, 2> items = {pop(), value};
      put_into_dict(items);
      return true;
    }
    case 'u':
      put_into_dict(pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool Unpickler::take_memo(unsigned char op) {
  switch (op) {
    case 'q':
      remember(number(1));
      return true;
    case 'r':
      remember(number(4));
      return true;
    case 0x94:
      remember(memo_.size());
      return true;
    case 'h':
      recall(number(1));
      return true;
    case 'j':
      recall(number(4));
      return true;
    default:
      return false;
  }
}

void Unpickler::put_into_dict(std::span<const PickleValue> items) {
  if (items.size() % 2 != 0) refuse("got a key without a value");
  need_kind(top(), Kind::dict, "to put items into");
  charge(items.size() * 2 * sizeof(PickleValue));  // vectors reserve more than they hold
  auto& node = pickle_.nodes_[static_cast<std::size_t>(top().number)];
  node.insert(node.end(), items.begin(), items.end());
}

void Unpickler::put_into_list(std::span<const PickleValue> items) {
  need_kind(top(), Kind::list, "to put items into");
  charge(items.size() * 2 * sizeof(PickleValue));
  auto& node = pickle_.nodes_[static_cast<std::size_t>(top().number)];
  node.insert(node.end(), items.begin(), items.end());
}

void Unpickler::remember(std::uint64_t index) {
  // Indices are in order, starting at 0 in Python 3 and at 1 in Python 2.
  if (index > memo_.size() + 1) refuse(fmt::format("got memo index {} out of order", index));
  const PickleValue value = top();
  while (memo_.size() <= index) {
    charge(sizeof(PickleValue));
    memo_.push_back({Kind::mark});  // empty entry
  }
  memo_[static_cast<std::size_t>(index)] = value;
}

void Unpickler::recall(std::uint64_t index) {
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)].kind == Kind::mark) {
    refuse(fmt::format("got memo index {}, which is empty", index));
  }
  push(memo_[static_cast<std::size_t>(index)]);
}

void Unpickler::push_text(std::uint64_t length) {
  const std::string_view text = take(length);
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) refuse("got a text of more than 4 GiB");
  push({Kind::text, static_cast<std::uint32_t>(text.size()), static_cast<std::int64_t>(next_ - text.size())});
}

void Unpickler::push_opaque(std::uint64_t length) {
  (void)take(length);
  push({Kind::opaque});
}

/// Pushes a little-endian two's complement integer of any length.
void Unpickler::push_integer(std::size_t length) {
  if (length > sizeof(std::int64_t)) {
    (void)take(length);
    push({Kind::wide, static_cast<std::uint32_t>(length), static_cast<std::int64_t>(next_ - length)});
    return;
  }
  std::uint64_t value = number(length);
  if (length > 0 && length < 8 && (value >> (8 * length - 1)) != 0)
    value |= ~std::uint64_t{0} << (8 * length);
  push({Kind::integer, 0, static_cast<std::int64_t>(value)});
}

void Unpickler::push_node(Kind kind, std::vector<PickleValue> items) {
  charge(kNodeBytes + items.size() * sizeof(PickleValue));
  pickle_.nodes_.push_back(std::move(items));
  push({kind, 0, static_cast<std::int64_t>(pickle_.nodes_.size() - 1)});
}

void Unpickler::push(PickleValue value) {
  if (stack_.size() == kMaxPickleStack)
    refuse(fmt::format("got more than {} values on the stack", kMaxPickleStack));
  stack_.push_back(value);
}

PickleValue& Unpickler::top() {
  if (stack_.empty() || stack_.back().kind == Kind::mark) refuse("got an empty stack, need a value on it");
  return stack_.back();
}

PickleValue Unpickler::pop() {
  const PickleValue value = top();
  stack_.pop_back();
  return value;
}

PickleValue Unpickler::pop(Kind kind, std::string_view use) {
  const PickleValue value = pop();
  need_kind(value, kind, use);
  return value;
}

std::vector<PickleValue> Unpickler::pop_to_mark() {
  const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                 [](const PickleValue& value) { return value.kind == Kind::mark; });
  if (mark == stack_.rend()) refuse("got no MARK on the stack");
  std::vector<PickleValue> items(mark.base(), stack_.end());
  stack_.erase(mark.base() - 1, stack_.end());
  return items;
}

void Unpickler::charge(std::size_t bytes) {
  charged_ += bytes;
  if (charged_ > kMaxPickleBytes) {
    fail(Status::limit, "{}: its pickle makes more than {} MiB of objects; convert it to safetensors",
         pickle_.where(), kMaxPickleBytes >> 20);
  }
}

std::string_view Unpickler::take(std::uint64_t count) {
  if (count > text_.size() - next_) {
    refuse(fmt::format("got {} bytes, need {}; was it downloaded whole?", text_.size() - next_, count));
  }
  const std::string_view bytes = text_.substr(next_, static_cast<std::size_t>(count));
  next_ += bytes.size();
  return bytes;
}

std::uint64_t Unpickler::number(std::size_t count) {
  const std::string_view bytes = take(count);
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string_view Unpickler::line() {
  const std::size_t end = text_.find('\n', next_);
  if (end == std::string_view::npos) refuse("got a name without an end");
  std::string_view text = take(end + 1 - next_);
  text.remove_suffix(1);
  return text;
}

void Unpickler::refuse(std::string_view what) const {
  const std::string_view op =
      at_ < text_.size() ? pickle_opcode_name(static_cast<unsigned char>(text_[at_])) : std::string_view();
  fail(Status::bad_input, "{}: pickle @byte {}{}{}: {}", pickle_.where(), at_, op.empty() ? "" : ", ", op,
       what);
}

void Unpickler::need_kind(const PickleValue& value, Kind kind, std::string_view use) const {
  if (value.kind != kind) refuse(fmt::format("got {}, need {} {}", name_of(value.kind), name_of(kind), use));
}

}  // namespace attnctl
