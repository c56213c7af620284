#include "cli/schemas.hpp"

#include <string>

#include "base/error.hpp"

namespace attnctl::cli {

std::string_view schema_text(std::string_view name) {
  std::string names;
  for (const Schema& schema : schemas()) {
    if (name == schema.name || name == fmt::format("attnctl.{}/1", schema.name)) return schema.text;
    names += (names.empty() ? "" : ", ") + std::string(schema.name);
  }
  fail(Status::usage, "schema: unsupported \"{}\"; supported: {}", escaped(name), names);
}

}  // namespace attnctl::cli
