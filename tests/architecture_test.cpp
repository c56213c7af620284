#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/source_rules.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

TEST_CASE("every source file keeps the order and the namespaces of the folders") {
  const std::filesystem::path root = ATTNCTL_SOURCE_DIR;
  static const std::regex type("(?:class|struct) ([A-Z]\\w*)(?: final)?(?: ?:[^:;{][^;{]*)? ?\\{");
  std::map<std::string, std::size_t> files;               // of each folder
  std::map<std::string, std::vector<std::string>> types;  // the files that define each type
  // The constants of headers and of sources, each with its folder. The sources of a folder are compiled
  // together, so that a constant of one source would replace that of a header in the others.
  static const std::regex constant("(?:^|\\n)(?:inline )?constexpr [^=;({]*?\\b(k[A-Z]\\w*)\\s*[={;]");
  std::set<std::string> of_headers, of_sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "src")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".hpp") continue;
    const std::string path = entry.path().lexically_relative(root).generic_string();
    CAPTURE(path);
    ++files[entry.path().parent_path().string()];
    const std::string text = slurp(entry.path());
    for (const std::string& breach : source_breaches(path, text)) FAIL_CHECK(breach);
    const std::string code = without_comments(text);
    for (std::sregex_iterator found(code.begin(), code.end(), type), end; found != end; ++found) {
      types[(*found)[1]].push_back(path);
    }
    const std::string folder = path.substr(0, path.find('/', 4));  // src/FOLDER
    for (std::sregex_iterator found(code.begin(), code.end(), constant), end; found != end; ++found)
      (extension == ".hpp" ? of_headers : of_sources).insert(folder + " " + (*found)[1].str());
  }
  CHECK(of_headers.size() > 20);
  for (const std::string& name : of_sources) {
    CAPTURE(name);
    CHECK_FALSE(of_headers.contains(name));
  }
  CHECK(files.size() > 20);
  for (const auto& folder : files) {
    CAPTURE(folder.first);
    CHECK(folder.second <= 30);
  }
  for (const auto& type_places : types) {
    CAPTURE(type_places.first);
    CAPTURE(type_places.second);
    CHECK(type_places.second.size() == 1);  // no other type has this name
  }
}

TEST_CASE("names of tests have no semicolon, at which CMake would cut them, so that ctest runs no test") {
  static const std::regex name(R"re(TEST_CASE\("[^"]*;)re");
  std::size_t sources = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ATTNCTL_SOURCE_DIR "/tests")) {
    if (entry.path().extension() != ".cpp") continue;
    ++sources;
    CAPTURE(entry.path().string());
    CHECK_FALSE(std::regex_search(slurp(entry.path()), name));
  }
  CHECK(sources > 50);
}

TEST_CASE("installed headers include only the standard library and each other") {
  static const std::regex include("#include (<[a-z_]+>|\"attnctl/[a-z_]+\\.hpp\")");
  std::size_t headers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNCTL_SOURCE_DIR "/include/attnctl")) {
    ++headers;
    std::istringstream text(slurp(entry.path()));
    for (std::string line; std::getline(text, line);) {
      CAPTURE(entry.path().filename().string());
      CAPTURE(line);
      CHECK((!line.starts_with("#include") || std::regex_match(line, include)));
    }
  }
  CHECK(headers >= 10);
}

TEST_CASE("the program cannot open a connection or start another program") {
  if (kSanitized) {
    MESSAGE("skipped: a sanitizer adds functions");
    return;
  }
  const RunResult symbols =
      run_shell("nm -D --undefined-only $program", {.environment = {{"program", ATTNCTL_BINARY}}});
  REQUIRE_MESSAGE(symbols.status == 0, symbols.err);
  CHECK(std::regex_search(symbols.out, std::regex(" U (open|openat|open64)\\b")));
  static const std::regex forbidden(
      " U (socket|connect|sendto|getaddrinfo|gethostbyname|system|popen|exec[a-z]+|posix_spawnp?)\\b");
  std::smatch found;
  CHECK_MESSAGE(!std::regex_search(symbols.out, found, forbidden), found.str());
}

TEST_CASE("the program replaces the allocation functions, also for libraries that do not check them") {
  if (kSanitized) {
    MESSAGE("skipped: a sanitizer replaces malloc");
    return;
  }
  const RunResult symbols =
      run_shell("nm -D --defined-only $program", {.environment = {{"program", ATTNCTL_BINARY}}});
  REQUIRE_MESSAGE(symbols.status == 0, symbols.err);
  for (const char* function : {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"}) {
    CAPTURE(function);
    CHECK(symbols.out.find(fmt::format(" T {}\n", function)) != std::string::npos);
  }
}

TEST_CASE("the rules catch what they are for") {
  struct Row {
    const char* path;
    const char* text;
    std::vector<std::string> want;
  };
  const std::vector<Row> rows = {
      {"src/base/error.cpp", "#include \"base/error.hpp\"\n#include <string>\n", {}},
      {"src/base/error.cpp", "#include \"model/model.hpp\"\n", {"base/ may not include model/model.hpp"}},
      {"src/linalg/gemm.hpp",
       "#  include <checkpoint/checkpoint.hpp>\n",
       {"linalg/ may not include checkpoint/checkpoint.hpp"}},
      {"src/report/json.cpp",
       "#include \"analysis/similarity.hpp\"\n",
       {"report/ may not include analysis/similarity.hpp"}},
      {"src/forward/run.cpp", "// #include \"cli/run.hpp\"\n/* #include <cblas.h> */\n", {}},
      {"src/cli/options/parser.cpp", "#include \"report/json.hpp\"\n#include <CLI/CLI.hpp>\n", {}},
      {"src/cli/run.cpp", "#include <CLI/App.hpp>\n", {"CLI/App.hpp belongs in cli/options/parser.cpp"}},
      {"src/analysis/ranks.cpp",
       "#include <cblas.h>\n#include <xtensor-blas/xlinalg.hpp>\n#include <xsimd/xsimd.hpp>\n",
       {"cblas.h belongs below linalg/", "xtensor-blas/xlinalg.hpp belongs below linalg/",
        "xsimd/xsimd.hpp belongs below linalg/"}},
      {"src/linalg/gemm.cpp", "#include <cblas.h>\n#include \"linalg/packing.hpp\"\n", {}},
      {"src/forward/run.cpp", "#include \"linalg/packing.hpp\"\n", {}},
      {"src/utils/misc.cpp", "", {"utils/ is no folder of docs/architecture.md"}},
      {"src/forward/run.cpp",
       "namespace attnctl::model {\nclass Model;\n}\nnamespace attnctl::forward {\n",
       {}},
      {"src/forward/run.cpp",
       "namespace attnctl {\nint x;\n}\nnamespace attnctl::model {\nint y;\n}\n",
       {"forward/ has the namespace attnctl::forward, not attnctl",
        "forward/ has the namespace attnctl::forward, not attnctl::model"}},
      {"src/tokenizer/regex/regex.cpp", "namespace attnctl::tokenizer::regex {\nnamespace {\n", {}},
      {"src/base/pool.cpp", "namespace attnctl {\n", {}},
      {"src/results/results.cpp",
       "namespace attnctl::results {\n",
       {"results/ has the namespace attnctl, not attnctl::results"}},
      {"src/api/api.cpp", "namespace attn {\nnamespace core = attnctl;\n", {}},
      {"src/forward/norm.cpp",
       "if (config.family == \"gpt2\") {}\n",
       {"names the family \"gpt2\": branch on a property"}},
      {"src/forward/norm.cpp",
       "if (is_llama_like(config)) {}\n",
       {"names the family \"llama\": branch on a property"}},
      {"src/forward/norm.cpp",
       "case Family::Bert: break;\n",
       {"names the family \"Bert\": branch on a property"}},
      {"src/forward/norm.cpp", "// as in GPT2, where \"gpt2\" scales by layer\nint x = '\"';\n", {}},
      {"src/cli/analyze.cpp",
       "\"attnctl analyze data/tiny-llama --ids 5,6\"; \"llama-7b\"; \"gpt2-small\"",
       {}},
      {"src/model/families/families.cpp", "{.name = \"bert\"}", {}},
      {"src/tokenizer/unicode.cpp", "bool is_bert_punctuation(char32_t c);", {}},
      {"tests/any_test.cpp", "#include <cblas.h>\n", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    CAPTURE(row.text);
    CHECK(source_breaches(row.path, row.text) == row.want);
  }
}

TEST_CASE("comments are left out, strings are not") {
  CHECK(without_comments("a /* b */ c // d\ne") == "a  c \ne");
  CHECK(without_comments("s = \"// no /* comment\"; x") == "s = \"// no /* comment\"; x");
  CHECK(without_comments("c = '\"'; // gone") == "c = '\"'; ");
  CHECK(without_comments("s = \"\\\"\"; // gone") == "s = \"\\\"\"; ");
}

/// Lines of each function that makes a row of the table of families.
std::vector<std::size_t> lines_of_rows(const std::string& text) {
  std::vector<std::size_t> lines;
  std::istringstream in(text);
  std::size_t count = 0;  // within a row
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("void ") && line.ends_with("(FamilySpec& spec) {"))
      count = 1;
    else if (count > 0)
      ++count;
    if (line == "}" && count > 0) lines.push_back(std::exchange(count, std::size_t{0}));
  }
  return lines;
}

TEST_CASE("the median row of the table of families is short") {
  std::vector<std::size_t> lines;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNCTL_SOURCE_DIR "/src/model/families")) {
    if (!entry.path().filename().string().starts_with("families_")) continue;
    const auto found = lines_of_rows(slurp(entry.path()));
    lines.insert(lines.end(), found.begin(), found.end());
  }
  REQUIRE(lines.size() > 30);
  std::ranges::sort(lines);
  CHECK(lines[lines.size() / 2] < 25);
}

}  // namespace
}  // namespace attnctl::test
