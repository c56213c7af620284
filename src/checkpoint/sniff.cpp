#include "checkpoint/sniff.hpp"

#include <algorithm>
#include <array>

namespace attnctl {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  Sniffed meaning;
};

constexpr std::string_view kConvert = "convert it to safetensors";
constexpr std::string_view kName = "give it the extension of what it is";
constexpr std::string_view kWeights = "name a weights file";

constexpr std::array kSignatures = {
    Signature{"version https://git-lfs"sv,
              {"a Git LFS pointer, not the file itself", "fetch it with git lfs pull"}},
    Signature{"\x89PNG\r\n\x1a\n"sv, {"a PNG image", kWeights}},
    Signature{"\xFF\xD8\xFF"sv, {"a JPEG image", kWeights}},
    Signature{"GIF8"sv, {"a GIF image", kWeights}},
    Signature{"%PDF-"sv, {"a PDF document", kWeights}},
    Signature{"GGUF"sv, {"a GGUF model", kName}},
    Signature{"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", kConvert}},
    Signature{"\x93NUMPY"sv, {"an NPY array", kName}},
    Signature{"PK\x03\x04"sv, {"a ZIP archive (NPZ, or a PyTorch checkpoint)", kName}},
    Signature{"\x1F\x8B"sv, {"a gzip archive", "unpack it"}},
    Signature{"(\xB5/\xFD"sv, {"a zstd archive", "unpack it"}},
    Signature{"\xFD"
              "7zXZ\0"sv,
              {"an xz archive", "unpack it"}},
    Signature{"\x80\x02"sv, {"a Python pickle, which is never executed", kConvert}},
    Signature{"\x80\x04"sv, {"a Python pickle, which is never executed", kConvert}},
};

std::string_view without_space(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

bool starts_with_word(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(), [](char want, char got) {
           return want == got || (got >= 'A' && got <= 'Z' && want == got + 32);
         });
}

}  // namespace

std::optional<Sniffed> sniff(std::string_view content) {
  for (const Signature& signature : kSignatures) {
    if (content.starts_with(signature.bytes)) return signature.meaning;
  }
  const std::string_view text = without_space(content.substr(0, 512));
  if (starts_with_word(text, "<!doctype html") || starts_with_word(text, "<html")) {
    return Sniffed{"an HTML page", "download the file itself, not the page that shows it"};
  }
  if (starts_with_word(text, "<?xml") || starts_with_word(text, "<svg"))
    return Sniffed{"an XML document", kWeights};
  if (text.starts_with('{') || text.starts_with('[')) return Sniffed{"JSON text", kName};
  return std::nullopt;
}

}  // namespace attnctl
