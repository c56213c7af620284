#include "checkpoint/pickle.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"

namespace attnctl::checkpoint {
namespace {

using Kind = PickleValue::Kind;

// Largest number of stack entries. Python writes dictionaries and lists in batches of 1000 items, so valid
// checkpoints need fewer entries.
constexpr std::size_t kMaxPickleStack = std::size_t{1} << 16;
constexpr std::size_t kMaxPickleBytes = std::size_t{40} << 20;
constexpr std::size_t kNodeBytes = 64;  // estimated memory of a tuple, list or dict without its items

enum class PickleRole : std::uint8_t { storage, dtype, rebuild, parameter, ordered_dict, size, device };

/// A Python name that torch.save writes. All other names are errors.
struct PickleName {
  std::string_view name;  // the name with its module, such as "torch.Size"
  PickleRole role;
  /// Type of the elements, for the roles `storage` and `dtype`; nullopt: bytes without a type.
  std::optional<DType> dtype = {};
  std::size_t fewest = 0, most = 0;  // number of arguments of a call
  bool typed = false;                // for the role `rebuild`: the seventh argument is the dtype
};

constexpr PickleName kPickleNames[] = {
    {"torch.DoubleStorage", PickleRole::storage, DType::f64},
    {"torch.FloatStorage", PickleRole::storage, DType::f32},
    {"torch.HalfStorage", PickleRole::storage, DType::f16},
    {"torch.BFloat16Storage", PickleRole::storage, DType::bf16},
    {"torch.LongStorage", PickleRole::storage, DType::i64},
    {"torch.IntStorage", PickleRole::storage, DType::i32},
    {"torch.ShortStorage", PickleRole::storage, DType::i16},
    {"torch.CharStorage", PickleRole::storage, DType::i8},
    {"torch.ByteStorage", PickleRole::storage, DType::u8},
    {"torch.BoolStorage", PickleRole::storage, DType::boolean},
    {"torch.storage.UntypedStorage", PickleRole::storage},
    {"torch.float64", PickleRole::dtype, DType::f64},
    {"torch.float32", PickleRole::dtype, DType::f32},
    {"torch.float16", PickleRole::dtype, DType::f16},
    {"torch.bfloat16", PickleRole::dtype, DType::bf16},
    {"torch.int64", PickleRole::dtype, DType::i64},
    {"torch.int32", PickleRole::dtype, DType::i32},
    {"torch.int16", PickleRole::dtype, DType::i16},
    {"torch.int8", PickleRole::dtype, DType::i8},
    {"torch.uint64", PickleRole::dtype, DType::u64},
    {"torch.uint32", PickleRole::dtype, DType::u32},
    {"torch.uint16", PickleRole::dtype, DType::u16},
    {"torch.uint8", PickleRole::dtype, DType::u8},
    {"torch.bool", PickleRole::dtype, DType::boolean},
    {"collections.OrderedDict", PickleRole::ordered_dict, {}, 0, 1},
    {"torch.Size", PickleRole::size, {}, 1, 1},
    {"torch.device", PickleRole::device, {}, 1, 2},
    // Arguments: storage, offset, shape, strides[, requires_grad, hooks[, dtype][, metadata]].
    {"torch._utils._rebuild_tensor", PickleRole::rebuild, {}, 4, 4},
    {"torch._utils._rebuild_tensor_v2", PickleRole::rebuild, {}, 6, 7},
    {"torch._utils._rebuild_tensor_v3", PickleRole::rebuild, {}, 7, 8, true},
    // Arguments: tensor, requires_grad, hooks[, state].
    {"torch._utils._rebuild_parameter", PickleRole::parameter, {}, 3, 3},
    {"torch._utils._rebuild_parameter_with_state", PickleRole::parameter, {}, 4, 4},
};

const PickleName& name_at(const PickleValue& global) {
  return kPickleNames[static_cast<std::size_t>(global.number)];
}

/// The stack machine that executes the opcodes and fills a Pickle. Python's module pickletools describes the
/// opcodes.
class Unpickler {
 public:
  Unpickler(Pickle& pickle, std::size_t begin)
      : pickle_(pickle), text_(pickle.file), at_(std::min(begin, text_.size())), next_(at_) {}

  void run();

  // The functions below do the work of the opcodes and read the operands that follow an opcode.

  void push(Kind kind, std::int64_t number = 0) { push(PickleValue{kind, 0, number}); }

  void push_unsigned(std::size_t bytes) { push(Kind::integer, static_cast<std::int64_t>(number(bytes))); }

  /// Pushes a signed integer that is stored in `length` bytes as little-endian two's complement.
  void push_signed(std::size_t length) {
    if (length > sizeof(std::int64_t)) {
      (void)take(length);
      push({Kind::wide, static_cast<std::uint32_t>(length), static_cast<std::int64_t>(next_ - length)});
      return;
    }
    std::uint64_t value = number(length);
    if (length > 0 && length < 8 && (value >> (8 * length - 1)) != 0)
      value |= ~std::uint64_t{0} << (8 * length);
    push(Kind::integer, static_cast<std::int64_t>(value));
  }

  void push_text(std::uint64_t length) {
    const std::string_view text = take(length);
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) refuse("got a text of more than 4 GiB");
    push({Kind::text, static_cast<std::uint32_t>(text.size()),
          static_cast<std::int64_t>(next_ - text.size())});
  }

  void push_opaque(std::uint64_t length) {
    (void)take(length);
    push(Kind::opaque);
  }

  void push_node(Kind kind, std::vector<PickleValue> items = {}) {
    charge(kNodeBytes + items.size() * sizeof(PickleValue));
    pickle_.nodes.push_back(std::move(items));
    push(kind, static_cast<std::int64_t>(pickle_.nodes.size() - 1));
  }

  std::vector<PickleValue> pop_items(std::size_t count) {
    std::vector<PickleValue> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  std::vector<PickleValue> pop_to_mark() {
    const auto mark = std::ranges::find(stack_.rbegin(), stack_.rend(), Kind::mark, &PickleValue::kind);
    if (mark == stack_.rend()) refuse("got no MARK on the stack");
    std::vector<PickleValue> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }

  void put_into(Kind kind, std::span<const PickleValue> items) {
    if (kind == Kind::dict && items.size() % 2 != 0) refuse("got a key without a value");
    need_kind(top(), kind, "to put items into");
    // Times 2, because a vector may reserve twice the memory of its items.
    charge(items.size() * 2 * sizeof(PickleValue));
    auto& node = pickle_.nodes[static_cast<std::size_t>(top().number)];
    node.insert(node.end(), items.begin(), items.end());
  }

  void remember_next() { remember(memo_.size()); }

  void remember(std::uint64_t index) {
    // Python 3 numbers the entries from 0, Python 2 from 1, both without gaps.
    if (index > memo_.size() + 1) refuse(fmt::format("got memo index {} out of order", index));
    const PickleValue value = top();
    while (memo_.size() <= index) {
      charge(sizeof(PickleValue));
      memo_.push_back({Kind::mark});  // marks an entry without a value
    }
    memo_[static_cast<std::size_t>(index)] = value;
  }

  void recall(std::uint64_t index) {
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)].kind == Kind::mark)
      refuse(fmt::format("got memo index {}, which is empty", index));
    push(memo_[static_cast<std::size_t>(index)]);
  }

  void skip_frame() {
    const std::uint64_t size = number(8);
    if (size > text_.size() - next_) refuse("got a frame that exceeds the file");
  }

  void push_global() {
    const std::string_view module = line();
    push_global(module, line());
  }

  void push_stacked_global() {
    const PickleValue name = pop(Kind::text, "for a name");
    const PickleValue module = pop(Kind::text, "for a module");
    push_global(pickle_.text(module), pickle_.text(name));
  }

  void refuse_instance() {
    const std::string_view module = line();
    refuse(fmt::format("unsupported opcode, for an instance of {}.{}", shown(module), shown(line())));
  }

  /// Ignores the attributes of an OrderedDict, such as "_metadata", which contain no weights.
  void build() {
    (void)pop();
    need_kind(top(), Kind::dict, "to build; others are unsupported");
  }

  /// Replaces the tuple at the top of the stack by the storage that the tuple describes: ("storage", type,
  /// key, location, count[, None or (view key, offset, count)]).
  void push_storage() {
    const auto items = pickle_.items(pop(Kind::tuple, "that refers to a storage"));
    if (items.size() != 5 && items.size() != 6)
      refuse(fmt::format("got {} items, need the 5 or 6 of a storage", items.size()));
    need_kind(items[0], Kind::text, "\"storage\"");
    if (pickle_.text(items[0]) != "storage")
      refuse(fmt::format("unsupported reference to {}", in_quotes(pickle_.text(items[0]))));
    need_kind(items[1], Kind::global, "of a storage");
    const PickleName& type = name_at(items[1]);
    if (type.role != PickleRole::storage)
      refuse(fmt::format("unsupported storage {}, need a storage type of torch", type.name));
    need_kind(items[2], Kind::text, "for the storage's key");
    need_kind(items[4], Kind::integer, "for the storage's size");
    PickleStorage storage = {pickle_.text(items[2]), type.dtype, items[4].number, 0, items[4].number};
    if (items.size() == 6 && items[5].kind != Kind::none) {
      need_kind(items[5], Kind::tuple, "for a view of the storage");
      const auto view = pickle_.items(items[5]);
      if (view.size() != 3)
        refuse(
            fmt::format("got {} items for the view of a storage, need 3: key, offset and size", view.size()));
      need_kind(view[1], Kind::integer, "for the view's offset");
      need_kind(view[2], Kind::integer, "for the view's size");
      storage.view_offset = view[1].number;
      storage.view_count = view[2].number;
    }
    if (storage.count < 0 || storage.view_offset < 0 || storage.view_count < 0 ||
        storage.view_offset > storage.count || storage.view_count > storage.count - storage.view_offset) {
      refuse(fmt::format("got {} elements at offset {} of a storage of {} elements", storage.view_count,
                         storage.view_offset, storage.count));
    }
    charge(2 * sizeof storage);
    pickle_.storages.push_back(storage);
    push(Kind::storage, static_cast<std::int64_t>(pickle_.storages.size() - 1));
  }

  void call() {
    const auto items = pickle_.items(pop(Kind::tuple, "of arguments"));
    const PickleName& name = name_at(pop(Kind::global, "to call"));
    if (name.role == PickleRole::storage || name.role == PickleRole::dtype)
      refuse(fmt::format("unsupported call of {}", name.name));
    if (items.size() < name.fewest || items.size() > name.most) {
      refuse(fmt::format("unsupported call of {} with {} arguments, need {} to {}", name.name, items.size(),
                         name.fewest, name.most));
    }
    switch (name.role) {
      case PickleRole::ordered_dict:
        return call_ordered_dict(items);
      case PickleRole::size:
        need_kind(items[0], Kind::tuple, "of extents");
        return push(items[0]);
      case PickleRole::rebuild:
        return call_rebuild(name, items);
      case PickleRole::parameter:
        need_kind(items[0], Kind::tensor, "for a parameter");
        return push(items[0]);
      case PickleRole::device:
      case PickleRole::storage:
      case PickleRole::dtype:
        return push(Kind::opaque);
    }
  }

  std::uint64_t number(std::size_t bytes) { return little_endian(take(bytes)); }

 private:
  void push_global(std::string_view module, std::string_view name) {
    const std::string whole = fmt::format("{}.{}", module, name);
    const auto* const known = std::ranges::find(kPickleNames, whole, &PickleName::name);
    if (known == std::end(kPickleNames)) {
      refuse(fmt::format(
          "unsupported name {}.{} in a dictionary of tensors; nothing was executed; save only the "
          "state_dict",
          shown(module), shown(name)));
    }
    push(Kind::global, known - std::begin(kPickleNames));
  }

  /// Creates an OrderedDict. Python 3 passes no arguments and adds the items later; Python 2 passes a list of
  /// pairs.
  void call_ordered_dict(std::span<const PickleValue> arguments) {
    std::vector<PickleValue> items;
    if (!arguments.empty()) {
      need_kind(arguments[0], Kind::list, "of pairs");
      for (const PickleValue& pair : pickle_.items(arguments[0])) {
        if (pair.kind != Kind::tuple) need_kind(pair, Kind::list, "of a key and a value");
        const auto two = pickle_.items(pair);
        if (two.size() != 2) refuse(fmt::format("got {} items, need a key and a value", two.size()));
        charge(2 * two.size_bytes());
        items.insert(items.end(), two.begin(), two.end());
      }
    }
    push_node(Kind::dict, std::move(items));
  }

  void call_rebuild(const PickleName& name, std::span<const PickleValue> arguments) {
    need_kind(arguments[0], Kind::storage, "for a tensor");
    const auto storage = static_cast<std::size_t>(arguments[0].number);
    PickleTensor tensor = {storage, DType::f32, arguments[1], arguments[2], arguments[3]};
    std::optional<DType> dtype = pickle_.storages[storage].dtype;
    if (name.typed) {
      need_kind(arguments[6], Kind::global, "of a dtype");
      const PickleName& type = name_at(arguments[6]);
      if (type.role != PickleRole::dtype) refuse(fmt::format("got {}, need a dtype", type.name));
      dtype = type.dtype;
    }
    if (!dtype)
      refuse("got an UntypedStorage for a tensor without a dtype, need a typed storage such as FloatStorage");
    tensor.dtype = *dtype;
    // The metadata describe operations, such as conjugation, that are not yet applied to the stored elements.
    const bool metadata =
        arguments.size() == name.most && name.most > 4 && arguments.back().kind != Kind::none;
    if (metadata && (arguments.back().kind != Kind::dict || !pickle_.items(arguments.back()).empty()))
      refuse("unsupported metadata of a tensor");
    charge(2 * sizeof tensor);
    pickle_.tensors.push_back(tensor);
    push(Kind::tensor, static_cast<std::int64_t>(pickle_.tensors.size() - 1));
  }

  void push(PickleValue value) {
    if (stack_.size() == kMaxPickleStack)
      refuse(fmt::format("got more than {} values on the stack", kMaxPickleStack));
    stack_.push_back(value);
  }

  PickleValue& top() {
    if (stack_.empty() || stack_.back().kind == Kind::mark) refuse("got an empty stack, need a value on it");
    return stack_.back();
  }

  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }

  PickleValue pop(Kind kind, std::string_view use) {
    const PickleValue value = pop();
    need_kind(value, kind, use);
    return value;
  }

  void charge(std::size_t bytes) {
    charged_ += bytes;
    if (charged_ > kMaxPickleBytes) {
      fail(Status::limit, "{}: its pickle makes more than {} MiB of objects; convert it to safetensors",
           pickle_.where, kMaxPickleBytes >> 20);
    }
  }

  std::string_view take(std::uint64_t count) {
    if (count > text_.size() - next_)
      refuse(fmt::format("got {} bytes, need {}; was it downloaded whole?", text_.size() - next_, count));
    const std::string_view bytes = text_.substr(next_, static_cast<std::size_t>(count));
    next_ += bytes.size();
    return bytes;
  }

  std::string_view line() {
    const std::size_t end = text_.find('\n', next_);
    if (end == std::string_view::npos) refuse("got a name without an end of line");
    std::string_view text = take(end + 1 - next_);
    text.remove_suffix(1);
    return text;
  }

  [[noreturn]] void refuse(std::string_view what) const;

  void need_kind(const PickleValue& value, Kind kind, std::string_view use) const {
    if (value.kind != kind)
      refuse(fmt::format("got {}, need {} {}", name_of(value.kind), name_of(kind), use));
  }

  Pickle& pickle_;
  std::string_view text_;
  std::size_t at_ = 0;    // offset of the current opcode in `text_`
  std::size_t next_ = 0;  // offset of the next unread byte in `text_`
  std::vector<PickleValue> stack_;
  std::deque<PickleValue> memo_;
  std::size_t charged_ = 0;
};

struct PickleOpcode {
  unsigned char code = 0;
  std::string_view name = {};
  void (*run)(Unpickler& machine) = nullptr;  // null for the opcodes of kUnsupportedCodes
};

constexpr PickleOpcode kPickleOpcodes[] = {
    {'(', "MARK", [](Unpickler& m) { m.push(Kind::mark); }},
    {'N', "NONE", [](Unpickler& m) { m.push(Kind::none); }},
    {0x88, "NEWTRUE", [](Unpickler& m) { m.push(Kind::boolean, 1); }},
    {0x89, "NEWFALSE", [](Unpickler& m) { m.push(Kind::boolean, 0); }},
    {'K', "BININT1", [](Unpickler& m) { m.push_unsigned(1); }},
    {'M', "BININT2", [](Unpickler& m) { m.push_unsigned(2); }},
    {'J', "BININT", [](Unpickler& m) { m.push_signed(4); }},
    {0x8A, "LONG1", [](Unpickler& m) { m.push_signed(m.number(1)); }},
    {'G', "BINFLOAT", [](Unpickler& m) { m.push_opaque(8); }},
    {'U', "SHORT_BINSTRING", [](Unpickler& m) { m.push_text(m.number(1)); }},
    {0x8C, "SHORT_BINUNICODE", [](Unpickler& m) { m.push_text(m.number(1)); }},
    {'T', "BINSTRING", [](Unpickler& m) { m.push_text(m.number(4)); }},
    {'X', "BINUNICODE", [](Unpickler& m) { m.push_text(m.number(4)); }},
    {0x8D, "BINUNICODE8", [](Unpickler& m) { m.push_text(m.number(8)); }},
    {'C', "SHORT_BINBYTES", [](Unpickler& m) { m.push_opaque(m.number(1)); }},
    {'B', "BINBYTES", [](Unpickler& m) { m.push_opaque(m.number(4)); }},
    {')', "EMPTY_TUPLE", [](Unpickler& m) { m.push_node(Kind::tuple); }},
    {']', "EMPTY_LIST", [](Unpickler& m) { m.push_node(Kind::list); }},
    {'}', "EMPTY_DICT", [](Unpickler& m) { m.push_node(Kind::dict); }},
    {'t', "TUPLE", [](Unpickler& m) { m.push_node(Kind::tuple, m.pop_to_mark()); }},
    {0x85, "TUPLE1", [](Unpickler& m) { m.push_node(Kind::tuple, m.pop_items(1)); }},
    {0x86, "TUPLE2", [](Unpickler& m) { m.push_node(Kind::tuple, m.pop_items(2)); }},
    {0x87, "TUPLE3", [](Unpickler& m) { m.push_node(Kind::tuple, m.pop_items(3)); }},
    {'a', "APPEND", [](Unpickler& m) { m.put_into(Kind::list, m.pop_items(1)); }},
    {'e', "APPENDS", [](Unpickler& m) { m.put_into(Kind::list, m.pop_to_mark()); }},
    {'s', "SETITEM", [](Unpickler& m) { m.put_into(Kind::dict, m.pop_items(2)); }},
    {'u', "SETITEMS", [](Unpickler& m) { m.put_into(Kind::dict, m.pop_to_mark()); }},
    {'q', "BINPUT", [](Unpickler& m) { m.remember(m.number(1)); }},
    {'r', "LONG_BINPUT", [](Unpickler& m) { m.remember(m.number(4)); }},
    {0x94, "MEMOIZE", [](Unpickler& m) { m.remember_next(); }},
    {'h', "BINGET", [](Unpickler& m) { m.recall(m.number(1)); }},
    {'j', "LONG_BINGET", [](Unpickler& m) { m.recall(m.number(4)); }},
    {0x95, "FRAME", [](Unpickler& m) { m.skip_frame(); }},
    {'c', "GLOBAL", [](Unpickler& m) { m.push_global(); }},
    {0x93, "STACK_GLOBAL", [](Unpickler& m) { m.push_stacked_global(); }},
    {'i', "INST", [](Unpickler& m) { m.refuse_instance(); }},
    {'R', "REDUCE", [](Unpickler& m) { m.call(); }},
    {'b', "BUILD", [](Unpickler& m) { m.build(); }},
    {'Q', "BINPERSID", [](Unpickler& m) { m.push_storage(); }},
};

/// The opcodes that kPickleOpcodes does not contain, and their names in the same order, for error messages.
/// Unpickler::run() handles STOP, and PROTO at the beginning of the pickle. The other opcodes are
/// unsupported.
constexpr std::string_view kUnsupportedCodes =
    ".012FILPSVdglop\x80\x81\x82\x83\x84\x8B\x8E\x8F\x90\x91\x92\x96\x97\x98";
constexpr std::string_view kUnsupportedNames[] = {
    "STOP",      "POP",       "POP_MARK",   "DUP",         "FLOAT",          "INT",
    "LONG",      "PERSID",    "STRING",     "UNICODE",     "DICT",           "GET",
    "LIST",      "OBJ",       "PUT",        "PROTO",       "NEWOBJ",         "EXT1",
    "EXT2",      "EXT4",      "LONG4",      "BINBYTES8",   "EMPTY_SET",      "ADDITEMS",
    "FROZENSET", "NEWOBJ_EX", "BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER"};
static_assert(kUnsupportedCodes.size() == std::size(kUnsupportedNames));

/// The opcode of each byte value. Bytes that are not opcodes have no name.
constexpr auto kOpcodes = [] {
  std::array<PickleOpcode, 256> opcodes{};
  for (const PickleOpcode& opcode : kPickleOpcodes) opcodes[opcode.code] = opcode;
  for (std::size_t i = 0; i < kUnsupportedCodes.size(); ++i)
    opcodes[static_cast<unsigned char>(kUnsupportedCodes[i])].name = kUnsupportedNames[i];
  return opcodes;
}();

void Unpickler::run() {
  constexpr unsigned kProto = 0x80;
  if (number(1) != kProto) refuse("got no PROTO at the beginning, need a pickle of protocol 2 to 5");
  const std::uint64_t protocol = number(1);
  if (protocol < 2 || protocol > 5)
    refuse(fmt::format("unsupported pickle protocol {}, need 2 to 5", protocol));
  for (;;) {
    at_ = next_;
    const auto code = static_cast<unsigned char>(number(1));
    if (code == '.') break;
    const PickleOpcode& opcode = kOpcodes[code];
    if (opcode.name.empty()) refuse(fmt::format("unsupported opcode 0x{:02x}", code));
    if (opcode.run == nullptr) refuse("unsupported opcode");
    opcode.run(*this);
  }
  pickle_.root = pop();
  if (!stack_.empty()) refuse("got more than one value on the stack at the end, need one");
  pickle_.end = next_;
}

void Unpickler::refuse(std::string_view what) const {
  const std::string_view name =
      at_ < text_.size() ? kOpcodes[static_cast<unsigned char>(text_[at_])].name : "";
  fail(Status::bad_input, "{}: pickle @byte {}{}{}: {}", pickle_.where, at_, name.empty() ? "" : ", ", name,
       what);
}

}  // namespace

std::string_view name_of(PickleValue::Kind kind) {
  constexpr std::string_view kNames[] = {"a mark",
                                         "None",
                                         "a boolean",
                                         "an integer",
                                         "an integer of more than 64 bits",
                                         "a text",
                                         "a tuple",
                                         "a list",
                                         "a dictionary",
                                         "a name",
                                         "a storage",
                                         "a tensor",
                                         "a value of another type"};
  return kNames[static_cast<std::size_t>(kind)];
}

Pickle::Pickle(std::string place, std::string_view file_text, std::size_t begin)
    : where(std::move(place)), file(file_text) {
  Unpickler(*this, begin).run();
}

}  // namespace attnctl::checkpoint
