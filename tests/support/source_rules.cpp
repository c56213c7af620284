#include "support/source_rules.hpp"

#include <array>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace attnctl::test {
namespace {

using Names = std::set<std::string>;

const std::map<std::string, Names>& may_include() {
  static const std::map<std::string, Names> allowed = {
      {"base", {}},
      {"results", {"base"}},
      {"formats", {"base"}},
      {"linalg", {"base"}},
      {"report", {"base", "results", "formats"}},
      {"checkpoint", {"base", "formats", "linalg"}},
      {"tokenizer", {"base", "formats"}},
      {"input", {"base", "formats", "tokenizer"}},
      {"model", {"base", "results", "formats", "linalg", "checkpoint"}},
      {"forward", {"base", "formats", "linalg", "input", "model"}},
      {"reference", {"base", "formats", "linalg", "input", "model", "forward"}},
      {"causal", {"base", "linalg", "input", "model", "forward"}},
      {"analysis",
       {"base", "results", "formats", "linalg", "checkpoint", "input", "model", "forward", "reference"}},
      {"textbook",
       {"base", "results", "formats", "linalg", "checkpoint", "input", "model", "forward", "reference",
        "analysis"}},
      {"study",
       {"base", "results", "formats", "linalg", "checkpoint", "tokenizer", "input", "model", "forward",
        "reference", "causal", "analysis", "inspect"}},
      {"inspect",
       {"base", "results", "formats", "linalg", "checkpoint", "tokenizer", "input", "model", "forward",
        "causal", "analysis"}},
      {"api",
       {"base", "results", "formats", "linalg", "checkpoint", "tokenizer", "input", "model", "forward",
        "inspect", "study"}},
      {"cli",
       {"base", "results", "formats", "linalg", "report", "checkpoint", "tokenizer", "input", "model",
        "forward", "reference", "causal", "analysis", "textbook", "study", "inspect"}},
  };
  return allowed;
}

/// Returns "forward" for src/forward/run.cpp; an empty string for files outside of src.
std::string folder_of(const std::string& path) {
  static const std::regex place("^src/([^/]+)/.*");
  std::smatch match;
  return std::regex_match(path, match, place) ? match[1].str() : std::string();
}

void check_include(const std::string& file, const std::string& header, std::vector<std::string>& breaches) {
  static const std::regex numerics(
      "^(cblas|lapacke?|f77blas|immintrin|xsimd/.*|xtensor-blas/.*)(\\.h|\\.hpp)?$");
  static const std::regex options("^CLI/.*");
  const std::string folder = folder_of(file);
  const std::string target = header.substr(0, header.find('/'));
  if (target != folder && may_include().count(target) != 0 && may_include().at(folder).count(target) == 0)
    breaches.push_back(fmt::format("{}/ may not include {}", folder, header));
  if (folder != "linalg" && std::regex_match(header, numerics))
    breaches.push_back(fmt::format("{} belongs below linalg/", header));
  if (file != "src/cli/options/parser.cpp" && std::regex_match(header, options))
    breaches.push_back(fmt::format("{} belongs in cli/options/parser.cpp", header));
}

/// Returns the namespace of the files of a folder of src/.
std::string namespace_of(const std::string& folder) {
  if (folder == "api") return "attn";
  return folder == "base" || folder == "results" ? "attnctl" : "attnctl::" + folder;
}

void check_namespaces(const std::string& folder, const std::string& code,
                      std::vector<std::string>& breaches) {
  // The third group matches a block that only declares types, which may belong to another folder.
  static const std::regex block(
      "(^|\n)namespace (attn(?:ctl)?(?:::\\w+)*) \\{(\\s*(?:(?:class|struct) \\w+;\\s*)+\\})?");
  const std::string own = namespace_of(folder);
  for (std::sregex_iterator match(code.begin(), code.end(), block), end; match != end; ++match) {
    const std::string name = (*match)[2].str();
    const bool inside = name == own || (own.find(':') != std::string::npos && name.starts_with(own + "::"));
    if (!inside && !(*match)[3].matched)
      breaches.push_back(fmt::format("{}/ has the namespace {}, not {}", folder, own, name));
  }
}

void check_families(const std::string& code, std::vector<std::string>& breaches) {
  // A longer name such as "tiny-llama" or "llama-7b" is a path or a preset, not a test for a family.
  static const std::regex family(
      "(^|[^-/A-Za-z])(\\w*_)?(albert|bert|distilbert|electra|"
      "gpt2|llama|mistral|qwen[23]|roberta)(_\\w*)?([^-/A-Za-z0-9]|$)",
      std::regex::icase);
  std::smatch match;
  if (std::regex_search(code, match, family))
    breaches.push_back(fmt::format("names the family \"{}\": branch on a property", match[3].str()));
}

}  // namespace

std::string without_comments(std::string_view text) {
  enum class In { code, line, block, string };
  std::string out;
  In state = In::code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (state == In::line) {
      if (c == '\n') state = In::code;
    } else if (state == In::block) {
      if (c == '*' && next == '/') {
        state = In::code;
        ++i;
        continue;
      }
    } else if (state == In::string) {
      out += c;
      if (c == '\\') {
        out += next;
        ++i;
      } else if (c == '"') {
        state = In::code;
      }
      continue;
    } else if (c == '/' && (next == '/' || next == '*')) {
      state = next == '/' ? In::line : In::block;
      ++i;
      continue;
    } else if (c == '\'' && next == '"') {  // the character '"' does not begin a string
      out += "'\"";
      ++i;
      continue;
    } else if (c == '"') {
      state = In::string;
    }
    if (state == In::code || state == In::string) out += c;
  }
  return out;
}

std::vector<std::string> source_breaches(std::string_view path, std::string_view text) {
  std::vector<std::string> breaches;
  const std::string file(path);
  const std::string folder = folder_of(file);
  if (folder.empty()) return breaches;
  if (may_include().count(folder) == 0)
    return {fmt::format("{}/ is no folder of docs/architecture.md", folder)};

  static const std::regex include("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"].*");
  const std::string code = without_comments(text);
  std::string others;
  std::istringstream lines(code);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, include)) {
      check_include(file, match[1].str(), breaches);
    } else {
      others += line + '\n';
    }
  }
  check_namespaces(folder, others, breaches);
  static const std::regex family_table("^src/(model/families/.*|checkpoint/gguf/gguf_model\\.cpp)$");
  // tokenizer/ does not use models, and parts of tokenizer.json have such names (BertNormalizer and its
  // character sets).
  if (folder != "tokenizer" && !std::regex_match(file, family_table)) check_families(others, breaches);
  return breaches;
}

}  // namespace attnctl::test
