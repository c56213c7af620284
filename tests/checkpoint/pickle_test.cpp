#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/refusal.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"
#include "support/torch_bytes.hpp"

using namespace attnctl;
using namespace attnctl::checkpoint;
using namespace attnctl::test;
using namespace std::string_literals;

namespace {

struct Row {
  std::string_view what;
  std::string pickle;
  std::vector<std::string_view> parts;
  Status status = Status::bad_input;
};

const std::string kTensor = torch_tensor({});
const std::string kCallSystem = "cos\nsystem\n(" + torch_text("true") + "tR";

std::string repeated(std::string_view part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

/// Protocol 2, a dictionary of one item.
std::string item(const std::string& name, const std::string& value) {
  return "\x80\x02}" + name + value + "s.";
}
std::string named(const std::string& value) {
  return item(torch_text("w"), value);
}
std::string tensor(const TorchTensor& parts) {
  return torch_pickle({{"w", parts}});
}

/// Returns the opcodes of a storage of two elements with a view of it.
std::string storage_with(const std::string& view) {
  return "(" + torch_text("storage") + "ctorch\nFloatStorage\n" + torch_text("0") + "NK\2" + view + "tQ";
}

std::vector<Row> code() {
  return {
      {"os.system", named(kCallSystem), {"GLOBAL", "unsupported name os.system", "nothing was executed"}},
      {"posix.system",
       named("cposix\nsystem\n(" + torch_text("x") + "tR"),
       {"unsupported name posix.system"}},
      {"eval",
       named("c__builtin__\neval\n(" + torch_text("1") + "tR"),
       {"unsupported name __builtin__.eval"}},
      {"exec", named("cbuiltins\nexec\n(" + torch_text("1") + "tR"), {"unsupported name builtins.exec"}},
      {"getattr", named("cbuiltins\ngetattr\n"), {"unsupported name builtins.getattr"}},
      {"the pickled module itself", named("cpickle\nloads\n"), {"unsupported name pickle.loads"}},
      {"torch.load", named("ctorch\nload\n"), {"unsupported name torch.load"}},
      {"a member of a known name", named("ctorch.FloatStorage\nfrom_file\n"), {"unsupported name"}},
      {"a known name cut otherwise", named("ctorch._utils._rebuild\ntensor_v2\n"), {"unsupported name"}},
      {"a control byte in a name", named("co\x1bs\nsys\x07tem\n"), {"unsupported name o\\x1bs.sys\\x07tem"}},
      {"STACK_GLOBAL",
       "\x80\x04" + torch_text("os") + torch_text("system") + "\x93.",
       {"STACK_GLOBAL", "unsupported name os.system"}},
      {"STACK_GLOBAL of numbers", "\x80\x04K\1K\2\x93.", {"need a text"}},
      {"INST", named("(ios\nsystem\n"), {"INST", "unsupported opcode, for an instance of os.system"}},
      {"OBJ", named("(" + kTensor + "o"), {"OBJ", "unsupported opcode"}},
      {"NEWOBJ", named("ccollections\nOrderedDict\n)\x81"), {"NEWOBJ", "unsupported opcode"}},
      {"NEWOBJ_EX", named("ccollections\nOrderedDict\n)}\x92"), {"NEWOBJ_EX", "unsupported opcode"}},
      {"EXT1", named("\x82\x01"), {"EXT1", "unsupported opcode"}},
      {"PERSID", named("P0\n"), {"PERSID", "unsupported opcode"}},
      {"GET of protocol 0", named("g0\n"), {"GET", "unsupported opcode"}},
      {"NEXT_BUFFER", named("\x97"), {"NEXT_BUFFER", "unsupported opcode"}},
      {"no opcode", named("\xff"), {"unsupported opcode 0xff"}},
      {"BUILD of a list", named("]}b"), {"BUILD", "got a list", "unsupported"}},
      {"BUILD of a tensor", named(kTensor + "}b"), {"BUILD", "got a tensor"}},
      {"REDUCE of a text",
       named(torch_text("os.system") + ")R"),
       {"REDUCE", "got a text, need a name to call"}},
      {"REDUCE without a tuple",
       named("ccollections\nOrderedDict\n]R"),
       {"REDUCE", "got a list, need a tuple"}},
      {"REDUCE of a storage", named("ctorch\nFloatStorage\n)R"), {"unsupported call of torch.FloatStorage"}},
      {"REDUCE of a dtype", named("ctorch\nfloat32\n)R"), {"unsupported call of torch.float32"}},
      {"too few arguments",
       named("ctorch._utils\n_rebuild_tensor_v2\n)R"),
       {"with 0 arguments, need 6 to 7"}},
      {"too many", named("ctorch\nSize\n))\x86R"), {"with 2 arguments"}},
      {"OrderedDict of items that are not pairs",
       named("ccollections\nOrderedDict\n]K\1a\x85R"),
       {"need a list of a key"}},
      {"OrderedDict of single items", named("ccollections\nOrderedDict\n])a\x85R"), {"got 0 items"}},
      {"a size of a list",
       tensor({.shape = "ctorch\nSize\n]\x85R"}),
       {"got a list, need a tuple of extents"}},
      {"a parameter that is not a tensor",
       named("ctorch._utils\n_rebuild_parameter\n(NNNtR"),
       {"need a tensor"}},
      {"metadata", tensor({.metadata = "}" + torch_text("conj") + "\x88s"}), {"unsupported metadata"}},
  };
}

std::vector<Row> stack() {
  return {
      {"empty", "", {"need"}},
      {"no PROTO", "}.", {"PROTO"}},
      {"PROTO 255", "\x80\xff}.", {"unsupported pickle protocol 255"}},
      {"PROTO 1", "\x80\x01}.", {"unsupported pickle protocol 1"}},
      {"PROTO again", "\x80\x02\x80\x02}.", {"PROTO", "unsupported opcode"}},
      {"nothing", "\x80\x02.", {"STOP", "got an empty stack"}},
      {"two values", "\x80\x02}}.", {"more than one value on the stack"}},
      {"a MARK left", "\x80\x02(}.", {"more than one value on the stack"}},
      {"bytes after it", named(kTensor) + "x", {"got 1 bytes after the end of the pickle"}},
      {"SETITEM on nothing", "\x80\x02K\1K\2s.", {"got an empty stack"}},
      {"SETITEM on a list", "\x80\x02]K\1K\2s.", {"got a list, need a dictionary"}},
      {"SETITEMS of three", "\x80\x02}(K\1K\2K\3u.", {"a key without a value"}},
      {"APPEND on a dictionary", "\x80\x02}K\1a.", {"got a dictionary, need a list"}},
      {"MARK missing", "\x80\x02K\1t.", {"TUPLE", "no MARK"}},
      {"MARK missing for items", "\x80\x02}K\1K\2u.", {"SETITEMS", "no MARK"}},
      {"a MARK as a value", "\x80\x02}K\1(s.", {"got an empty stack"}},
      {"a MARK in a tuple", "\x80\x02K\1(\x86.", {"got an empty stack"}},
      {"a MARK in the memo", "\x80\x02(q\0."s, {"BINPUT", "got an empty stack"}},
      {"a memo entry from an empty stack", "\x80\x02q\0."s, {"got an empty stack"}},
      {"the memo out of range", "\x80\x02h\5.", {"BINGET", "memo index 5"}},
      {"far out of range", "\x80\x02j\xff\xff\xff\xff.", {"memo index 4294967295"}},
      {"an empty entry of the memo", "\x80\x02}q\1h\0."s, {"memo index 0"}},
      {"a memo index that is too large", "\x80\x02}r\xff\xff\xff\x7f.", {"LONG_BINPUT", "out of order"}},
      {"a text of 4 GiB", "\x80\x02X\xff\xff\xff\xff.", {"need 4294967295; was it downloaded whole?"}},
      {"a text of 2^64-1", "\x80\x04\x8d" + repeated("\xff", 8) + ".", {"need 18446744073709551615"}},
      {"bytes of 4 GiB",
       "\x80\x03"
       "B\xff\xff\xff\xff.",
       {"need 4294967295"}},
      {"a frame of 2^63", "\x80\x04\x95" + repeated("\0"s, 7) + "\x80.", {"FRAME", "exceeds the file"}},
      {"a name without an end",
       "\x80\x02"
       "ctorch\nFloat",
       {"a name without an end"}},
      {"deep lists", "\x80\x02" + repeated("]", 70'000) + repeated("a", 69'999) + ".", {"on the stack"}},
      {"deep marks", "\x80\x02" + repeated("(", 1'000'000), {"on the stack"}},
      {"deep tuples", "\x80\x02)" + repeated("\x85", 60'000) + ".", {"got a tuple, need a dictionary"}},
      {"a list in itself", "\x80\x02]q\0h\0a."s, {"got a list, need a dictionary"}},
      {"millions of lists",
       "\x80\x02]" + repeated("]a", 2'000'000) + ".",
       {"40 MiB of objects"},
       Status::limit},
      {"millions of puts",
       "\x80\x02}" + repeated("\x94", 5'000'000) + ".",
       {"40 MiB of objects"},
       Status::limit},
  };
}

std::vector<Row> tensors() {
  const std::string negative = "J" + repeated("\xff", 4);
  const std::string huge = torch_number(std::size_t{1} << 62U);
  return {
      {"not a dictionary", "\x80\x02K\1.", {"got an integer, need a dictionary of tensors"}},
      {"a tensor outside of a dictionary", "\x80\x02" + kTensor + ".", {"got a tensor, need a dictionary"}},
      {"no tensors", item(torch_text("w"), "K\1"), {"a dictionary without tensors"}},
      {"a number for a name", item("K\1", kTensor), {"got an integer for the name of a tensor"}},
      {"a name that is not UTF-8", item(torch_text("\xff"), kTensor), {"\\xff", "not UTF-8"}},
      {"the same name twice", torch_pickle({{"w", {}}, {"w", {}}}), {"tensor \"w\"", "twice"}},
      {"tensors inside tensors",
       "\x80\x02}(" + torch_text("w") + kTensor + torch_text("model") + "}" + torch_text("v") + kTensor +
           "su.",
       {"unsupported: tensors in inner dictionaries"}},
      {"tensors under another name",
       item(torch_text("ema"), "}" + torch_text("v") + kTensor + "s"),
       {"unsupported: tensors in inner dictionaries", "\"ema\""}},
      {"negative extent", tensor({.shape = negative + "\x85"}), {"tensor \"w\": shape: got -1"}},
      {"negative stride", tensor({.strides = negative + "\x85"}), {"tensor \"w\": strides: got -1"}},
      {"negative offset", tensor({.offset = negative}), {"tensor \"w\": offset"}},
      {"offset after the end", tensor({.offset = "K\1"}), {"exceeds the 8 bytes"}},
      {"offset that wraps",
       tensor({.offset = "\x8a\x08" + repeated("\xff", 7) + "\x7f"}),
       {"exceeds the 8 bytes"}},
      {"stride after the end", tensor({.strides = "K\x02\x85"}), {"exceeds the 8 bytes"}},
      {"stride that wraps", tensor({.shape = "K\5\x85", .strides = huge + "\x85"}), {"exceeds the 8 bytes"}},
      {"more strides than extents", tensor({.strides = "K\1K\1\x86"}), {"strides: got [1, 1]"}},
      {"a product that wraps",
       tensor({.shape = huge + huge + "\x86", .strides = "K\0K\0\x86"s}),
       {"64 bits"}},
      {"expanded to a terabyte",
       tensor({.shape = torch_number(std::size_t{1} << 40U) + "\x85", .strides = "K\0\x85"s}),
       {"unsupported: expanded, strided or big-endian tensors"}},
      {"an extent of 70 bits",
       tensor({.shape = "\x8a\x09" + repeated("\1", 9) + "\x85"}),
       {"more than 64 bits"}},
      {"a text for an extent", tensor({.shape = torch_text("2") + "\x85"}), {"got a text, need an integer"}},
      {"a shape that is not a tuple", tensor({.shape = "K\2"}), {"shape: got an integer, need a tuple"}},
      {"65 dimensions",
       tensor({.shape = "(" + repeated("K\1", 65) + "t", .strides = "(" + repeated("K\1", 65) + "t"}),
       {"at most 64"}},
      {"storage too short", tensor({.count = "K\3"}), {"storage \"0\"", "got 8 bytes, need 12"}},
      {"a count that wraps", tensor({.count = huge}), {"64 bits"}},
      {"a negative count", tensor({.count = negative}), {"got -1 elements"}},
      {"a text for a count", tensor({.count = torch_text("2")}), {"got a text, need an integer"}},
      {"a key that is a path", tensor({.key = "../0"}), {"storage \"../0\"", "digits"}},
      {"an absolute key", tensor({.key = "/etc/passwd"}), {"digits"}},
      {"an empty key", tensor({.key = ""}), {"digits"}},
      {"a storage that is not there", tensor({.key = "7"}), {"m/data/7", "missing"}},
      {"a storage of a dtype",
       tensor({.storage = "ctorch\nfloat32\n"}),
       {"unsupported storage torch.float32"}},
      {"a storage of a text", tensor({.storage = torch_text("FloatStorage")}), {"got a text, need a name"}},
      {"a storage without a dtype",
       tensor({.storage = "ctorch.storage\nUntypedStorage\n"}),
       {"got an UntypedStorage", "need a typed storage such as FloatStorage"}},
      {"quantised", tensor({.storage = "ctorch\nQInt8Storage\n"}), {"unsupported name torch.QInt8Storage"}},
      {"another reference",
       named("(" + torch_text("module") + "NNNNtQ"),
       {"unsupported reference to \"module\""}},
      {"a short reference", named(")Q"), {"got 0 items"}},
      {"a storage in place of a dtype",
       named("ctorch._utils\n_rebuild_tensor_v3\n(" + storage_with("") + "K\0K\2\x85K\1\x85\x89N"s +
             "ctorch\nFloatStorage\ntR"),
       {"got torch.FloatStorage, need a dtype"}},
      {"a view after its storage",
       named(storage_with(torch_text("1") + "K\1K\2\x87")),
       {"got 2 elements at offset 1 of a storage of 2 elements"}},
      {"a view that begins after its storage",
       named(storage_with(torch_text("1") + "K\3K\0\x87"s)),
       {"got 0 elements at offset 3 of a storage of 2 elements"}},
      {"a view at a negative offset",
       named(storage_with(torch_text("1") + negative + "K\1\x87")),
       {"got 1 elements at offset -1"}},
      {"a view of a negative size",
       named(storage_with(torch_text("1") + "K\1" + negative + "\x87")),
       {"got -1"}},
      {"a view without a size",
       named(storage_with(torch_text("1") + "K\1\x86")),
       {"got 2 items for the view"}},
  };
}

std::string archive(const std::string& pickle) {
  return zip({{.name = "m/data.pkl", .data = pickle}, {.name = "m/data/0", .data = bytes_of<float>({1, 2})}});
}

std::unique_ptr<Checkpoint> open(const std::string& file) {
  Warnings warnings;
  auto checkpoint = std::make_unique<Checkpoint>();
  read_torch_file(checkpoint->map("m.bin", std::as_bytes(std::span(file))), *checkpoint, warnings);
  return checkpoint;
}

void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.what);
    std::vector<std::string_view> parts = row.parts;
    parts.emplace_back("m.bin");
    const std::string file = archive(row.pickle);
    check_refusal([&] { (void)open(file); }, row.status, parts);
  }
}

}  // namespace

TEST_CASE("a pickle that would run code is rejected with the name of the function") {
  check_rows(code());
}

TEST_CASE("a pickle that misuses the stack, the memo or lengths is rejected") {
  check_rows(stack());
}

TEST_CASE("tensors that exceed their storage or are malformed are rejected") {
  check_rows(tensors());
}

TEST_CASE("the valid pickle that the bad ones vary is read") {
  const std::string ordered =
      "\x80\x02"
      "ccollections\nOrderedDict\n]";
  for (const std::string& pickle :
       {named(kTensor), tensor({}), tensor({.metadata = "}"}), tensor({.metadata = "N"}),
        tensor({.shape = "ctorch\nSize\nK\x02\x85\x85R"}),
        item("T\1\0\0\0w"s, kTensor),  // a text of Python 2
        ordered + torch_text("w") + kTensor +
            "\x86"
            "a\x85R.",  // a list of pairs
        ordered + "](" + torch_text("w") + kTensor +
            "e"
            "a\x85R.",  // the pairs are lists
        item(torch_text("model"), "}" + torch_text("w") + kTensor + "s")}) {
    const std::string file = archive(pickle);
    const auto checkpoint = open(file);
    REQUIRE(checkpoint->tensors().size() == 1);
    CHECK(checkpoint->tensors()[0].name == "w");
    CHECK(checkpoint->tensor(0).bytes.size() == 8);
  }
}

TEST_CASE("values next to the tensors of a pickle are warnings") {
  struct Case {
    std::string value;
    std::string_view name;
  };
  for (const Case& row :
       {Case{"C\1x", "a value of another type"},
        Case{"ctorch\ndevice\n" + torch_text("cpu") + "\x85R", "a value of another type"},
        Case{"K\1", "an integer"}, Case{"M\1\1", "an integer"}, Case{torch_text("x"), "a text"}}) {
    const std::string file =
        archive("\x80\x02}(" + torch_text("w") + kTensor + torch_text("v") + row.value + "u.");
    Warnings warnings;
    Checkpoint checkpoint;
    read_torch_file(checkpoint.map("m.bin", std::as_bytes(std::span(file))), checkpoint, warnings);
    CHECK(checkpoint.tensors().size() == 1);
    REQUIRE(warnings.list().size() == 1);
    CHECK(warnings.list()[0].code == "ignored_value");
    CHECK(warnings.list()[0].message == "m.bin: \"v\" is " + std::string(row.name) + ", not a tensor");
  }
}

TEST_CASE("archives that are not PyTorch checkpoints are rejected") {
  const std::string good = named(kTensor);
  const std::string data = bytes_of<float>({1, 2});
  struct Case {
    std::string_view what;
    std::string file;
    std::string_view part;
  };
  for (const Case& row : {
           Case{"no objects", zip({{.name = "m/data/0", .data = data}}), "without FOLDER/data.pkl"},
           Case{"two", zip({{.name = "a/data.pkl", .data = good}, {.name = "b/data.pkl", .data = good}}),
                "data.pkl in"},
           Case{"TorchScript",
                zip({{.name = "m/constants.pkl", .data = good}, {.name = "m/data.pkl", .data = good}}),
                "unsupported: a TorchScript"},
           Case{"compressed", zip({{.name = "m/data.pkl", .data = good, .deflated = true}}),
                "unsupported: compressed"},
           Case{"compressed storage",
                zip({{.name = "m/data.pkl", .data = good},
                     {.name = "m/data/0", .data = data, .deflated = true}}),
                "unsupported: compressed"},
           Case{"an unknown order of bytes",
                zip({{.name = "m/byteorder", .data = "middle"}, {.name = "m/data.pkl", .data = good}}),
                "got \"middle\""},
           Case{"a bare pickle", "\x80\x02}.", "need the magic number"},
           Case{"text", "weights", "no PROTO"},
       }) {
    CAPTURE(row.what);
    check_refusal([&] { (void)open(row.file); }, Status::bad_input, {"m.bin", row.part});
  }
}

TEST_CASE("errors in the layout before torch 1.6 are rejected") {
  const std::string magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  const std::string version = "\x80\x02M\xe9\x03.";
  const std::string machine = "\x80\x02}.";
  const std::string keys = "\x80\x02]" + torch_text("0") + "a.";
  const std::string count = little_endian(2, 8);
  const std::string data = bytes_of<float>({1, 2});
  const std::string objects = named(kTensor);
  const auto file = [&](const std::string& list, const std::string& rest) {
    return magic + version + machine + objects + list + rest;
  };
  CHECK(open(file(keys, count + data))->tensor(0).bytes.size() == 8);
  struct Case {
    std::string_view what;
    std::string file;
    std::string_view part;
  };
  for (const Case& row : {
           Case{"another version", magic + "\x80\x02K\1.", "unsupported protocol version"},
           Case{"code for the version", magic + "\x80\x02" + kCallSystem + ".", "unsupported name os.system"},
           Case{"code for the machine", magic + version + "\x80\x02" + kCallSystem + ".",
                "unsupported name os"},
           Case{"no list of keys", file("\x80\x02}.", count + data), "need the list of storages"},
           Case{"a number for a key", file("\x80\x02]K\0a."s, count + data), "no tensor uses it"},
           Case{"another key", file("\x80\x02]" + torch_text("1") + "a.", count + data), "no tensor uses it"},
           Case{"two types of elements of a storage",
                magic + version + machine +
                    torch_pickle({{"v", {.storage = "ctorch\nHalfStorage\n"}}, {"w", {}}}) + keys,
                "storage \"0\": got two types of elements"},
           Case{"no keys", file("\x80\x02].", ""), "is missing from the file"},
           Case{"no count", file(keys, "123"), "got 3 bytes"},
           Case{"a count of 2^63", file(keys, little_endian(1ULL << 63U, 8)), "was it downloaded whole?"},
           Case{"fewer elements than the objects say", file(keys, little_endian(1, 8) + "1234"),
                "need 8 for its 2"},
           Case{"bytes after the end", file(keys, count + data + "x"),
                "got 1 bytes after the end of the last storage"},
           Case{"the key twice",
                file("\x80\x02](" + torch_text("0") + torch_text("0") + "e.", count + data + count + data),
                "twice"},
       }) {
    CAPTURE(row.what);
    check_refusal([&] { (void)open(row.file); }, Status::bad_input, {"m.bin", row.part});
  }
}

TEST_CASE("the command rejects hostile pickles with one line, in little time and memory") {
  const TempDir folder;
  for (const Row& row : {code()[0], stack()[29], stack()[32], tensors()[17]}) {
    CAPTURE(row.what);
    check_weights_refused(folder.write("m.bin", archive(row.pickle)), row.status);
  }
}

namespace {

const std::filesystem::path kFolder = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/torch";

std::unique_ptr<Checkpoint> open(const std::filesystem::path& path) {
  Warnings warnings;
  return open_checkpoint(path, warnings);
}

std::unique_ptr<Checkpoint> open_bytes(const std::string& bytes) {
  Warnings warnings;
  auto checkpoint = std::make_unique<Checkpoint>();
  read_torch_file(checkpoint->map("memory.bin", std::as_bytes(std::span(bytes))), *checkpoint, warnings);
  return checkpoint;
}

void check_same(Checkpoint& got, Checkpoint& want) {
  REQUIRE(got.tensors().size() == want.tensors().size());
  for (int pass = 0; pass < 2; ++pass) {  // the second after a release
    for (std::size_t i = 0; i < want.tensors().size(); ++i) {
      CAPTURE(want.tensors()[i].name);
      CHECK(got.tensors()[i].name == want.tensors()[i].name);
      const TensorView a = got.tensor(i);
      const TensorView b = want.tensor(i);
      CHECK(a.dtype == b.dtype);
      CHECK(a.shape == b.shape);
      CHECK(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()));
      got.release(i);
    }
  }
}

}  // namespace

TEST_CASE("files of torch.save, both layouts and all protocols, hold what safetensors hold") {
  struct Row {
    const char* file;
    const char* same;
  };
  for (const Row& row :
       {Row{"zip.bin", "all"}, Row{"zip3.pt", "all"}, Row{"zip4.pt", "all"}, Row{"zip5.pt", "all"},
        Row{"legacy.bin", "all"}, Row{"legacy4.pth", "all"}, Row{"unsigned.pt", "unsigned"},
        Row{"module.bin", "module"}, Row{"training.pt", "training"}, Row{"training-legacy.pt", "training"}}) {
    CAPTURE(row.file);
    const auto want = open(kFolder / (std::string(row.same) + ".safetensors"));
    REQUIRE(want->tensors().size() > 2);
    check_same(*open(kFolder / row.file), *want);
  }
}

TEST_CASE("torch.save files without a dictionary of known tensors are rejected with their type") {
  struct Row {
    const char* file;
    std::vector<std::string_view> parts;
  };
  for (const Row& row :
       {Row{"two.pt", {"unsupported", "\"model\", \"ema\""}},
        Row{"whole-module.pt", {"unsupported name torch.nn.modules.linear.Linear", "nothing was executed"}},
        Row{"complex.pt", {"unsupported name torch.ComplexFloatStorage"}}}) {
    CAPTURE(row.file);
    check_refusal([&] { (void)open(kFolder / row.file); }, Status::bad_input, row.parts);
  }
}

TEST_CASE("elements of a big-endian machine are turned around") {
  const TempDir folder;
  const auto big =
      folder.write("big.pt", zip({{.name = "m/data.pkl", .data = torch_pickle({{"w", {}}})},
                                  {.name = "m/byteorder", .data = "big"},
                                  {.name = "m/data/0", .data = {"\x3f\x80\0\0\0\0\x80\x3f", 8}}}));
  const auto checkpoint = open(big);
  const TensorView view = checkpoint->tensor(0);
  const std::string bytes(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
  CHECK(bytes == std::string("\0\0\x80\x3f\x3f\x80\0\0", 8));
}

TEST_CASE("a file of torch that is cut anywhere is refused") {
  for (const char* name : {"zip.bin", "zip4.pt", "legacy.bin", "legacy4.pth"}) {
    CAPTURE(name);
    const std::string whole = slurp(kFolder / name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      check_refusal([&] { (void)open_bytes(whole.substr(0, size)); }, Status::bad_input, {"memory.bin"});
    }
  }
}

TEST_CASE("a file of torch with any byte changed is read or refused") {
  for (const char* name : {"module.bin", "legacy.bin"}) {
    CAPTURE(name);
    const std::string whole = slurp(kFolder / name);
    std::size_t refused = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (i % 2 == 0 ? '\xff' : '\x01'));
      try {
        const auto checkpoint = open_bytes(changed);
        for (std::size_t t = 0; t < checkpoint->tensors().size(); ++t) (void)checkpoint->tensor(t);
      } catch (const Error& error) {
        CHECK((error.status() == Status::bad_input || error.status() == Status::limit));
        ++refused;
      }
    }
    CHECK(refused > whole.size() / 4);
  }
}

TEST_CASE("a damaged storage is found out by its CRC") {
  const TempDir folder;
  const auto path = folder.write("m.pt", zip({{.name = "m/data.pkl", .data = torch_pickle({{"w", {}}})},
                                              {.name = "m/data/0", .data = std::string(8, 'x'), .crc = 1}}));
  const auto checkpoint = open(path);
  check_refusal([&] { (void)checkpoint->tensor(0); }, Status::bad_input, {"m/data/0", "CRC"});
}

TEST_CASE("PyTorch shards are found by their index") {
  const TempDir folder;
  const auto shard = [&](const char* file, const char* name) {
    folder.write(file, zip({{.name = "m/data.pkl", .data = torch_pickle({{name, {}}})},
                            {.name = "m/data/0", .data = bytes_of<float>({1, 2})}}));
  };
  shard("pytorch_model-1.bin", "a");
  shard("pytorch_model-2.bin", "b");
  const auto index = folder.write(
      "pytorch_model.bin.index.json",
      R"({"metadata":{"total_size":16},"weight_map":{"a":"pytorch_model-1.bin","b":"pytorch_model-2.bin"}})");
  Warnings warnings;
  const auto checkpoint = open_checkpoint(index, warnings);
  CHECK(warnings.list().empty());
  REQUIRE(checkpoint->tensors().size() == 2);
  CHECK(checkpoint->find("b") == 1);
  const auto other = folder.write("x.bin.index.json", R"({"weight_map":{"a":"x.safetensors"}})");
  check_refusal([&] { (void)open(other); }, Status::bad_input,
                {"x.safetensors", "need the name of a .bin file"});
}

TEST_CASE("a directory with pytorch_model.bin gives what its safetensors give") {
  const std::filesystem::path data = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "data";
  const TempDir folder;
  std::filesystem::create_directory(folder.path() / "tiny-bert");
  std::filesystem::copy_file(data / "tiny-bert/config.json", folder.path() / "tiny-bert/config.json");
  folder.write("tiny-bert/pytorch_model.bin", torch_file_of(*open(data / "tiny-bert/model.safetensors")));
  const auto weights = [](const std::filesystem::path& directory) {
    RunOptions options;
    options.directory = directory.string();
    const RunResult run = run_attnctl({"weights", "tiny-bert", "--format", "json"}, options);
    CAPTURE(run.err);
    CHECK(run.status == 0);
    return run.out;
  };
  const std::string want = weights(data);
  CHECK(want.size() > 100);
  CHECK(weights(folder.path()) == want);
}
