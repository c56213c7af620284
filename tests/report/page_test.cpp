#include "report/page.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/files/output_file.hpp"
#include "report/html/assets.hpp"
#include "support/bytes.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::report {
namespace {

using nlohmann::json;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Reads stored numbers in the way that src/report/html/data.js does.
std::vector<float> read_numbers(const std::string& bytes, std::size_t rows, std::size_t columns, int bits,
                                std::size_t kept) {
  std::vector<float> scales(2 * rows);
  std::memcpy(scales.data(), bytes.data(), scales.size() * sizeof(float));
  const std::size_t stored = kept > 0 ? kept : columns;
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data()) + scales.size() * sizeof(float);
  const auto plane = [&] { return std::exchange(at, at + rows * stored); };
  const auto* const column_low = kept > 0 ? plane() : nullptr;
  const auto* const column_high = kept > 0 ? plane() : nullptr;
  const auto* const code_low = plane();
  const auto* const code_high = bits == 16 ? plane() : nullptr;
  std::vector<float> values(rows * columns);
  for (std::size_t place = 0; place < rows * stored; ++place) {
    const std::size_t row = place / stored;
    const std::size_t column = kept > 0 ? column_low[place] + 256U * column_high[place] : place % stored;
    const unsigned code = code_low[place] + (bits == 16 ? 256U * code_high[place] : 0U);
    if (column >= columns) continue;
    const bool undefined = code == (bits == 16 ? 65535U : 255U);
    values[row * columns + column] =
        undefined ? kNan : static_cast<float>(scales[row] + double{scales[rows + row]} * code);
  }
  return values;
}

TEST_CASE("stored numbers differ from the numbers by at most the stated error") {
  std::mt19937 random(7);
  constexpr std::size_t kColumns = 37;
  std::vector<float> values(11 * kColumns);
  for (float& value : values) value = static_cast<float>(random() % 100'000) / 1e5F - 0.25F;
  values[3] = kNan;
  values[40] = std::numeric_limits<float>::infinity();
  std::fill_n(values.begin() + 2 * kColumns, kColumns, 0.125F);  // a row of equal numbers
  for (const int bits : {8, 16}) {
    CAPTURE(bits);
    const StoredNumbers stored = store_numbers(values, kColumns, bits);
    CHECK(stored.error < (bits == 8 ? 1.0 / 254 / 2 : 1.0 / 65534 / 2) + 1e-7);
    const std::vector<float> read = read_numbers(stored.bytes, 11, kColumns, bits, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      if (std::isfinite(values[i])) {
        CHECK(std::abs(double{read[i]} - values[i]) <= stored.error);
      } else {
        CHECK(std::isnan(read[i]));
      }
    }
    CHECK(read[2 * kColumns] == 0.125F);
    CHECK(stored.highest ==
          *std::ranges::max_element(values, {}, [](float x) { return std::isfinite(x) ? x : -1; }));
  }
}

TEST_CASE("with a number of kept values, the largest of each row are stored with their columns") {
  const std::vector<float> values = {0.1F, 0.4F, kNan, 0.5F, 0, 0, 1, 0};
  const StoredNumbers stored = store_numbers(values, 4, 16, 2);
  const std::vector<float> read = read_numbers(stored.bytes, 2, 4, 16, 2);
  CHECK(read[0] == 0);
  CHECK(read[1] == doctest::Approx(0.4));
  CHECK(read[3] == doctest::Approx(0.5));
  CHECK(read[6] == doctest::Approx(1));
  const StoredNumbers few =
      store_numbers(std::vector<float>{0.25F, 0.75F}, 2, 8, 3);  // a row with fewer numbers
  const std::vector<float> both = read_numbers(few.bytes, 1, 2, 8, 3);
  CHECK(both[0] == doctest::Approx(0.25));
  CHECK(both[1] == doctest::Approx(0.75));
}

TEST_CASE("32 bits keep numbers, and a matrix without columns has no bytes") {
  const std::vector<float> values = {1.5F, -2.25F};
  const StoredNumbers stored = store_numbers(values, 2, 32);
  CHECK(stored.error == 0);
  std::vector<float> read(2);
  REQUIRE(stored.bytes.size() == 8);
  std::memcpy(read.data(), stored.bytes.data(), 8);
  CHECK(read == values);
  CHECK(store_numbers({}, 0, 8).bytes.empty());
}

TEST_CASE("base64 of the examples of RFC 4648") {
  const char* const kExamples[][2] = {{"", ""},
                                      {"f", "Zg=="},
                                      {"fo", "Zm8="},
                                      {"foo", "Zm9v"},
                                      {"foob", "Zm9vYg=="},
                                      {"fooba", "Zm9vYmE="},
                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, expected] : kExamples) {
    std::string text;
    append_base64(text, bytes);
    CHECK(text == expected);
  }
}

/// Returns the page of some results, without attention.
std::string page_of(const Results& results, const PageHead& head, const PageOptions& options = {}) {
  const test::TempDir folder;
  const auto file = folder.path() / "page.html";
  Pool pool(2);
  Warnings warnings;
  warnings.add("a", "a warning with </script>");
  OutputFile out(file);
  write_page(out, results, head, warnings, options, pool);
  out.commit();
  return test::slurp(file);
}

/// Returns the text between two marks.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

TEST_CASE("the data of a page are JSON that no text can leave") {
  static constexpr Definition kEntropy{"entropy", "nats", "[0, 1]", "ln n", "what it <means>", "Clark"};
  Results results;
  results.tables.push_back(make_table("heads", {"name", kEntropy},
                                      {{std::string("</script><b>"), 0.1}, {std::string("x"), Cell()}}));
  results.text.emplace_back(TextLine{"Strong", " plain"});
  results.document.head.set("model", Record().set("path", "<i>"));
  const std::string page = page_of(results, {"a <b> title", {"attnctl", "x"}, ""});
  const std::string text = between(page, "id=\"page-data\">", "</script>");
  CHECK(text.find('<') == std::string::npos);
  const json data = json::parse(text);
  CHECK(data["title"] == "a <b> title");
  CHECK(data["warnings"][0] == "a warning with </script>");
  CHECK(data["notes"] == json::array({"Strong plain"}));
  CHECK(data["about"]["model"]["path"] == "<i>");
  CHECK(data["tables"][0]["rows"] == json::parse(R"([["</script><b>", 0.1], ["x", null]])"));
  CHECK(data["tables"][0]["columns"][1]["meaning"] == "what it <means>");
  CHECK(page.find("<b>") == std::string::npos);
}

TEST_CASE("the policy of a page allows only its own script and style, and no network") {
  const std::string page = page_of({}, {"title", {}, ""});
  const std::string policy = between(page, "Content-Security-Policy\" content=\"", "\">");
  CHECK(policy.starts_with("default-src 'none'; script-src 'sha256-"));
  CHECK(policy.find("unsafe") == std::string::npos);
  CHECK(policy.find("http") == std::string::npos);
  CHECK(kPageAssets.script.find("</script") == std::string_view::npos);
  CHECK(kPageAssets.style.find("</style") == std::string_view::npos);
  for (const char* const call :
       {"fetch(", "XMLHttpRequest", "WebSocket", "import(", "eval(", "innerHTML", "insertAdjacentHTML"})
    CHECK_MESSAGE(kPageAssets.script.find(call) == std::string_view::npos, call);
}

TEST_CASE("a page has at most 20,000 rows of a table, and says how many it leaves out") {
  Table table{
      "many", {"row"}, 20'005, [](std::size_t row, std::span<Cell> cells) { cells[0] = count_cell(row); }};
  Results results;
  results.tables.push_back(std::move(table));
  const json data = json::parse(between(page_of(results, {"t", {}, ""}), "id=\"page-data\">", "</script>"));
  CHECK(data["tables"][0]["rows"].size() == 20'000);
  CHECK(data["tables"][0]["omitted"] == 5);
}

TEST_CASE("a page that is larger than its limit is an error with the options that help") {
  CHECK_THROWS_WITH(page_of({}, {"t", {}, ""}, {.top_k = {}, .limit = 1000}),
                    doctest::Contains("--page-limit allows 1000; give --page-top-k 32"));
}

}  // namespace
}  // namespace attnctl::report
