#include "support/gguf_writer.hpp"

#include "support/bytes.hpp"

namespace attnctl::test {

std::string gguf_string(std::string_view text) {
  return little_endian(text.size(), 8) + std::string(text);
}

GgufField gguf_u32(std::string_view key, std::uint32_t value) {
  return {std::string(key), 4, little_endian(value, 4)};
}
GgufField gguf_f32(std::string_view key, float value) {
  return {std::string(key), 6, bytes_of<float>({value})};
}
GgufField gguf_text(std::string_view key, std::string_view value) {
  return {std::string(key), 8, gguf_string(value)};
}

std::string GgufParts::bytes() const {
  std::string file =
      "GGUF" + little_endian(version, 4) + little_endian(tensors.size(), 8) + little_endian(fields.size(), 8);
  for (const GgufField& field : fields)
    file += gguf_string(field.key) + little_endian(field.type, 4) + field.bytes;
  for (const GgufEntry& tensor : tensors) {
    file += gguf_string(tensor.name) + little_endian(tensor.extents.size(), 4);
    for (const std::uint64_t extent : tensor.extents) file += little_endian(extent, 8);
    file += little_endian(tensor.type, 4) + little_endian(tensor.offset, 8);
  }
  file.resize((file.size() + 31) / 32 * 32);
  return file + data;
}

}  // namespace attnctl::test
