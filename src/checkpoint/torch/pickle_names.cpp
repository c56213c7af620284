#include "checkpoint/torch/pickle_names.hpp"

#include <algorithm>
#include <array>

namespace attnctl {
namespace {

constexpr PickleName storage(std::string_view name, std::optional<DType> dtype) {
  return {.name = name, .role = PickleRole::storage, .dtype = dtype};
}
constexpr PickleName dtype(std::string_view name, DType dtype) {
  return {.name = name, .role = PickleRole::dtype, .dtype = dtype};
}
constexpr PickleName call(std::string_view name, PickleRole role, std::size_t fewest, std::size_t most) {
  return {.name = name, .role = role, .fewest = fewest, .most = most};
}

constexpr std::array kNames = {
    storage("torch.DoubleStorage", DType::f64),
    storage("torch.FloatStorage", DType::f32),
    storage("torch.HalfStorage", DType::f16),
    storage("torch.BFloat16Storage", DType::bf16),
    storage("torch.LongStorage", DType::i64),
    storage("torch.IntStorage", DType::i32),
    storage("torch.ShortStorage", DType::i16),
    storage("torch.CharStorage", DType::i8),
    storage("torch.ByteStorage", DType::u8),
    storage("torch.BoolStorage", DType::boolean),
    storage("torch.storage.UntypedStorage", std::nullopt),
    dtype("torch.float64", DType::f64),
    dtype("torch.float32", DType::f32),
    dtype("torch.float16", DType::f16),
    dtype("torch.bfloat16", DType::bf16),
    dtype("torch.int64", DType::i64),
    dtype("torch.int32", DType::i32),
    dtype("torch.int16", DType::i16),
    dtype("torch.int8", DType::i8),
    dtype("torch.uint64", DType::u64),
    dtype("torch.uint32", DType::u32),
    dtype("torch.uint16", DType::u16),
    dtype("torch.uint8", DType::u8),
    dtype("torch.bool", DType::boolean),
    call("collections.OrderedDict", PickleRole::ordered_dict, 0, 1),
    call("torch.Size", PickleRole::size, 1, 1),
    call("torch.device", PickleRole::device, 1, 2),
    // storage, offset, shape, strides[, requires_grad, hooks[, dtype][, metadata]]
    call("torch._utils._rebuild_tensor", PickleRole::rebuild, 4, 4),
    call("torch._utils._rebuild_tensor_v2", PickleRole::rebuild, 6, 7),
    PickleName{.name = "torch._utils._rebuild_tensor_v3",
               .role = PickleRole::rebuild,
               .fewest = 7,
               .most = 8,
               .typed = true},
    // tensor, requires_grad, hooks[, state]
    call("torch._utils._rebuild_parameter", PickleRole::parameter, 3, 3),
    call("torch._utils._rebuild_parameter_with_state", PickleRole::parameter, 4, 4),
};

struct Opcode {
  unsigned char code;
  std::string_view name;
};

constexpr std::array kOpcodes = {
    Opcode{'(', "MARK"},
    Opcode{'.', "STOP"},
    Opcode{'0', "POP"},
    Opcode{'1', "POP_MARK"},
    Opcode{'2', "DUP"},
    Opcode{'F', "FLOAT"},
    Opcode{'I', "INT"},
    Opcode{'J', "BININT"},
    Opcode{'K', "BININT1"},
    Opcode{'L', "LONG"},
    Opcode{'M', "BININT2"},
    Opcode{'N', "NONE"},
    Opcode{'P', "PERSID"},
    Opcode{'Q', "BINPERSID"},
    Opcode{'R', "REDUCE"},
    Opcode{'S', "STRING"},
    Opcode{'T', "BINSTRING"},
    Opcode{'U', "SHORT_BINSTRING"},
    Opcode{'V', "UNICODE"},
    Opcode{'X', "BINUNICODE"},
    Opcode{'a', "APPEND"},
    Opcode{'b', "BUILD"},
    Opcode{'c', "GLOBAL"},
    Opcode{'d', "DICT"},
    Opcode{'}', "EMPTY_DICT"},
    Opcode{'e', "APPENDS"},
    Opcode{'g', "GET"},
    Opcode{'h', "BINGET"},
    Opcode{'i', "INST"},
    Opcode{'j', "LONG_BINGET"},
    Opcode{'l', "LIST"},
    Opcode{']', "EMPTY_LIST"},
    Opcode{'o', "OBJ"},
    Opcode{'p', "PUT"},
    Opcode{'q', "BINPUT"},
    Opcode{'r', "LONG_BINPUT"},
    Opcode{'s', "SETITEM"},
    Opcode{'t', "TUPLE"},
    Opcode{')', "EMPTY_TUPLE"},
    Opcode{'u', "SETITEMS"},
    Opcode{'G', "BINFLOAT"},
    Opcode{'B', "BINBYTES"},
    Opcode{'C', "SHORT_BINBYTES"},
    Opcode{0x80, "PROTO"},
    Opcode{0x81, "NEWOBJ"},
    Opcode{0x82, "EXT1"},
    Opcode{0x83, "EXT2"},
    Opcode{0x84, "EXT4"},
    Opcode{0x85, "TUPLE1"},
    Opcode{0x86, "TUPLE2"},
    Opcode{0x87, "TUPLE3"},
    Opcode{0x88, "NEWTRUE"},
    Opcode{0x89, "NEWFALSE"},
    Opcode{0x8A, "LONG1"},
    Opcode{0x8B, "LONG4"},
    Opcode{0x8C, "SHORT_BINUNICODE"},
    Opcode{0x8D, "BINUNICODE8"},
    Opcode{0x8E, "BINBYTES8"},
    Opcode{0x8F, "EMPTY_SET"},
    Opcode{0x90, "ADDITEMS"},
    Opcode{0x91, "FROZENSET"},
    Opcode{0x92, "NEWOBJ_EX"},
    Opcode{0x93, "STACK_GLOBAL"},
    Opcode{0x94, "MEMOIZE"},
    Opcode{0x95, "FRAME"},
    Opcode{0x96, "BYTEARRAY8"},
    Opcode{0x97, "NEXT_BUFFER"},
    Opcode{0x98, "READONLY_BUFFER"},
};

}  // namespace

std::span<const PickleName> pickle_names() {
  return kNames;
}

std::string_view pickle_opcode_name(unsigned char op) {
  const auto* const known =
      std::find_if(kOpcodes.begin(), kOpcodes.end(), [&](const Opcode& each) { return each.code == op; });
  return known != kOpcodes.end() ? known->name : std::string_view();
}

}  // namespace attnctl
