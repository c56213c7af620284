#include <algorithm>
#include <array>

#include "checkpoint/torch/unpickler.hpp"

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

constexpr std::array kPickleNames = {
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

struct PickleOpcode {
  unsigned char code;
  std::string_view name;
};

constexpr std::array kPickleOpcodes = {
    PickleOpcode{'(', "MARK"},
    PickleOpcode{'.', "STOP"},
    PickleOpcode{'0', "POP"},
    PickleOpcode{'1', "POP_MARK"},
    PickleOpcode{'2', "DUP"},
    PickleOpcode{'F', "FLOAT"},
    PickleOpcode{'I', "INT"},
    PickleOpcode{'J', "BININT"},
    PickleOpcode{'K', "BININT1"},
    PickleOpcode{'L', "LONG"},
    PickleOpcode{'M', "BININT2"},
    PickleOpcode{'N', "NONE"},
    PickleOpcode{'P', "PERSID"},
    PickleOpcode{'Q', "BINPERSID"},
    PickleOpcode{'R', "REDUCE"},
    PickleOpcode{'S', "STRING"},
    PickleOpcode{'T', "BINSTRING"},
    PickleOpcode{'U', "SHORT_BINSTRING"},
    PickleOpcode{'V', "UNICODE"},
    PickleOpcode{'X', "BINUNICODE"},
    PickleOpcode{'a', "APPEND"},
    PickleOpcode{'b', "BUILD"},
    PickleOpcode{'c', "GLOBAL"},
    PickleOpcode{'d', "DICT"},
    PickleOpcode{'}', "EMPTY_DICT"},
    PickleOpcode{'e', "APPENDS"},
    PickleOpcode{'g', "GET"},
    PickleOpcode{'h', "BINGET"},
    PickleOpcode{'i', "INST"},
    PickleOpcode{'j', "LONG_BINGET"},
    PickleOpcode{'l', "LIST"},
    PickleOpcode{']', "EMPTY_LIST"},
    PickleOpcode{'o', "OBJ"},
    PickleOpcode{'p', "PUT"},
    PickleOpcode{'q', "BINPUT"},
    PickleOpcode{'r', "LONG_BINPUT"},
    PickleOpcode{'s', "SETITEM"},
    PickleOpcode{'t', "TUPLE"},
    PickleOpcode{')', "EMPTY_TUPLE"},
    PickleOpcode{'u', "SETITEMS"},
    PickleOpcode{'G', "BINFLOAT"},
    PickleOpcode{'B', "BINBYTES"},
    PickleOpcode{'C', "SHORT_BINBYTES"},
    PickleOpcode{0x80, "PROTO"},
    PickleOpcode{0x81, "NEWOBJ"},
    PickleOpcode{0x82, "EXT1"},
    PickleOpcode{0x83, "EXT2"},
    PickleOpcode{0x84, "EXT4"},
    PickleOpcode{0x85, "TUPLE1"},
    PickleOpcode{0x86, "TUPLE2"},
    PickleOpcode{0x87, "TUPLE3"},
    PickleOpcode{0x88, "NEWTRUE"},
    PickleOpcode{0x89, "NEWFALSE"},
    PickleOpcode{0x8A, "LONG1"},
    PickleOpcode{0x8B, "LONG4"},
    PickleOpcode{0x8C, "SHORT_BINUNICODE"},
    PickleOpcode{0x8D, "BINUNICODE8"},
    PickleOpcode{0x8E, "BINBYTES8"},
    PickleOpcode{0x8F, "EMPTY_SET"},
    PickleOpcode{0x90, "ADDITEMS"},
    PickleOpcode{0x91, "FROZENSET"},
    PickleOpcode{0x92, "NEWOBJ_EX"},
    PickleOpcode{0x93, "STACK_GLOBAL"},
    PickleOpcode{0x94, "MEMOIZE"},
    PickleOpcode{0x95, "FRAME"},
    PickleOpcode{0x96, "BYTEARRAY8"},
    PickleOpcode{0x97, "NEXT_BUFFER"},
    PickleOpcode{0x98, "READONLY_BUFFER"},
};

}  // namespace

std::span<const PickleName> pickle_names() {
  return kPickleNames;
}

std::string_view pickle_opcode_name(unsigned char op) {
  const auto* const known = std::find_if(kPickleOpcodes.begin(), kPickleOpcodes.end(),
                                         [&](const PickleOpcode& each) { return each.code == op; });
  return known != kPickleOpcodes.end() ? known->name : std::string_view();
}

}  // namespace attnctl
