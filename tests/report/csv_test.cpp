#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "report/writers.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::report;
namespace fs = std::filesystem;

namespace {

std::string csv_of(const Table& table, const WriteOptions& options = {}) {
  const test::TempDir folder;
  OutputFile out(folder.path() / "t.csv");
  write_csv_table(out, table, options);
  out.commit();
  return test::slurp(folder.path() / "t.csv");
}

void write_folder(const fs::path& path, const std::vector<Table>& tables) {
  OutputFolder folder(path);
  for (const Table& table : tables) write_csv_table(folder.open(table.name + ".csv"), table);
  folder.commit();
}

std::string cell_of(std::string_view text) {
  std::string line;
  append_csv_text(line, text);
  return line;
}

Table one_cell(const std::string& name) {
  return make_table(name, {"a"}, {{std::int64_t{1}}});
}

}  // namespace

TEST_CASE("a table as CSV, by hand") {
  const float inf = std::numeric_limits<float>::infinity();
  const Table table =
      make_table("heads", {"component", "layer", "entropy", "best"},
                 {{Cell{}, std::int64_t{0}, 0.1F, true}, {std::string("enc"), std::int64_t{1}, inf, false}});
  CHECK(csv_of(table) == "component,layer,entropy,best\r\n,0,0.1,true\r\nenc,1,,false\r\n");
  CHECK(csv_of(table, {{2}, nullptr}) == "component,layer,entropy,best\r\n,0,0.10,true\r\nenc,1,,false\r\n");
  CHECK(csv_of(make_table("none", {"a", "b"}, {})) == "a,b\r\n");
}

TEST_CASE("a table as TSV, by hand") {
  const Table table = make_table("inputs", {"id", "to,ken", "weight"},
                                 {{std::int64_t{5}, std::string("a,b"), 0.5F},
                                  {std::int64_t{6}, std::string("a\tb"), Cell{}},
                                  {std::int64_t{7}, std::string("say \"x\""), Cell{}},
                                  {std::int64_t{8}, std::string("\t=x"), 1.5F},
                                  {std::int64_t{9}, std::string("a\nb"), 1.5F},
                                  {std::int64_t{10}, std::string(), 2.5F}});
  CHECK(csv_of(table, {.number = {}, .separator = '\t'}) ==
        "id\tto,ken\tweight\r\n5\ta,b\t0.5\r\n6\t\"a\tb\"\t\r\n7\t\"say \"\"x\"\"\"\t\r\n"
        "8\t\"'\t=x\"\t1.5\r\n9\t\"a\nb\"\t1.5\r\n10\t\"\"\t2.5\r\n");
}

TEST_CASE("a table whose fields are separated by semicolons, by hand") {
  const Table table = make_table("inputs", {"id", "to;ken", "weight"},
                                 {{std::int64_t{5}, std::string("a,b"), 0.5F},
                                  {std::int64_t{6}, std::string(";"), Cell{}},
                                  {std::int64_t{7}, std::string("a;b"), 1.5F}});
  CHECK(csv_of(table, {.number = {}, .separator = ';'}) ==
        "id;\"to;ken\";weight\r\n5;a,b;0.5\r\n6;\";\";\r\n7;\"a;b\";1.5\r\n");
}

TEST_CASE("text cells are quoted as RFC 4180 requires, and made safe") {
  struct Row {
    std::string_view text;
    std::string_view want;
    const char* why;
  };
  for (const Row& row : {
           Row{"animal", "animal", "plain"},
           Row{"", "\"\"", "empty is not undefined"},
           Row{"a,b", "\"a,b\"", "a comma"},
           Row{"say \"x\"", "\"say \"\"x\"\"\"", "quotes are doubled"},
           Row{",", "\",\"", "the token of a comma"},
           Row{"\"", "\"\"\"\"", "the token of a quote"},
           Row{"a\nb", "\"a\nb\"", "a line end"},
           Row{"\xc4\xa0the", "\xc4\xa0the", "UTF-8 stays"},
           Row{" x ", " x ", "spaces stay"},
           Row{"=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0", "a formula"},
           Row{"=1,2", "\"'=1,2\"", "a formula with a comma"},
           Row{"+SUM(A1)", "'+SUM(A1)", "plus"},
           Row{"-x", "'-x", "minus"},
           Row{"@me", "'@me", "at"},
           Row{"\t=x", "'\t=x", "a tab before it"},
           Row{"\r=x", "\"'\r=x\"", "a line end before it"},
           Row{"-inf", "'-inf", "a name to a spreadsheet"},
           Row{"\uff1d1+1", "'\uff1d1+1", "a full-width equals sign"},
           Row{"\uff0bx", "'\uff0bx", "a full-width plus"},
           Row{"\uff0d5", "'\uff0d5", "a full-width minus"},
           Row{"\uff20me", "'\uff20me", "a full-width at"},
           Row{"\uff1d", "\uff1d", "one character runs nothing"},
           Row{"a;=x", "a;'=x", "a formula after a semicolon"},
           Row{"a;@x;\uff1dy", "a;'@x;'\uff1dy", "two formulas after semicolons"},
           Row{"-1;+x", "'-1;'+x", "both"},
           Row{"a;'=x", "a;''=x", "not the cell of a;=x"},
           Row{"'=x", "''=x", "not the cell of =x"},
           Row{"''=x", "'''=x", "not the cell of '=x"},
           Row{"'x", "'x", "no formula"},
           Row{"'-5", "'-5", "no formula"},
           Row{"a;\tb; =c;", "a;\tb; =c;", "no formula"},
           Row{"-5", "-5", "a number"},
           Row{"+0.5e3", "+0.5e3", "a number"},
           Row{"-", "-", "one character runs nothing"},
           Row{"=", "=", "one character runs nothing"},
           Row{"a=b", "a=b", "not at the beginning"},
           Row{"\x1b]0;t\x07", "\\x1b]0;t\\x07", "an escape sequence"},
           Row{"\xff", "\\xff", "no UTF-8"},
           Row{"a\u202e\u200b", "a\u202e\u200b", "format characters are data"},
       }) {
    CAPTURE(row.why);
    CHECK(cell_of(row.text) == row.want);
  }
}

TEST_CASE("a long table has the same bytes for any number of threads") {
  const Table table{"t", {"row", "token", "weight"}, 100000, [](std::size_t row, std::span<Cell> cells) {
                      cells[0] = static_cast<std::int64_t>(row);
                      cells[1] = std::string("t").append(std::to_string(row % 7));
                      cells[2] = static_cast<float>(row) * 0.25F;
                    }};
  Pool pool(3);
  const std::string alone = csv_of(table);
  CHECK((csv_of(table, {{}, &pool}) == alone));
  CHECK(alone.ends_with("99999,t4,24999.75\r\n"));
  CHECK(std::ranges::count(alone, '\n') == 100001);
}

TEST_CASE("a folder of tables appears at commit") {
  const test::TempDir folder;
  const fs::path path = folder.path() / "out";
  write_folder(path, {one_cell("heads"), one_cell("inputs")});
  CHECK(test::slurp(path / "heads.csv") == "a\r\n1\r\n");
  CHECK(test::slurp(path / "inputs.csv") == "a\r\n1\r\n");
  {
    OutputFolder again(path);
    write_csv_table(again.open("heads.csv"), make_table("heads", {"b"}, {}));
  }
  CHECK(test::slurp(path / "heads.csv") == "a\r\n1\r\n");
  {
    OutputFolder fresh(folder.path() / "fresh");
    write_csv_table(fresh.open("x.csv"), one_cell("x"));
    CHECK(fs::exists(folder.path() / "fresh"));
  }
  CHECK_FALSE(fs::exists(folder.path() / "fresh"));
  fs::create_directory_symlink(path, folder.path() / "link");
  write_folder(folder.path() / "link", {make_table("heads", {"c"}, {})});
  CHECK(test::slurp(path / "heads.csv") == "c\r\n");
}

TEST_CASE("a failing table leaves the folder unchanged") {
  const test::TempDir folder;
  folder.write("out/heads.csv", "old");
  const Table failing{"t", {"a"}, 1, [](std::size_t, std::span<Cell>) { throw std::runtime_error("row"); }};
  CHECK_THROWS_WITH(write_folder(folder.path() / "out", {one_cell("heads"), failing}), "row");
  CHECK(test::slurp(folder.path() / "out/heads.csv") == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path() / "out"), fs::directory_iterator()) == 1);
}

TEST_CASE("an output folder that is a file, or has no parent, is an environment error") {
  const test::TempDir folder;
  folder.write("file", "old");
  fs::create_symlink("file", folder.path() / "link");
  for (const char* name : {"file", "link", "none/out", "file/out"}) {
    CAPTURE(name);
    try {
      write_folder(folder.path() / name, {one_cell("heads")});
      FAIL("written");
    } catch (const Error& error) {
      CHECK(error.status() == Status::environment);
    }
  }
  CHECK(test::slurp(folder.path() / "file") == "old");
}

using namespace attnctl;
using namespace attnctl::report;

TEST_CASE("chunks are written in order for any number of threads") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    Pool pool(threads);
    std::string all;
    write_in_order(
        &pool, 500, [](std::size_t chunk, std::string& text) { text += std::to_string(chunk) + ' '; },
        [&](const std::string& text) { all += text; });
    std::string want;
    for (int chunk = 0; chunk < 500; ++chunk) want += std::to_string(chunk) + ' ';
    CHECK(all == want);
  }
}

TEST_CASE("a slow writer limits each worker to one chunk") {
  constexpr std::size_t threads = 4;
  constexpr std::size_t chunks = 64;
  Pool pool(threads);
  std::atomic<std::size_t> formatted = 0;
  std::size_t written = 0;
  std::size_t most = 0;
  write_in_order(
      &pool, chunks, [&](std::size_t, std::string&) { ++formatted; },
      [&](const std::string&) {
        // The writer waits until every worker has formatted as many chunks as it may.
        while (formatted < std::min(chunks, written + threads)) std::this_thread::yield();
        most = std::max(most, formatted - written);
        ++written;
      });
  CHECK(written == chunks);
  CHECK(most == threads);
}

TEST_CASE("an exception of the writer ends the work of all workers") {
  struct Gone {};
  Pool pool(4);
  std::atomic<std::size_t> formatted = 0;
  std::size_t written = 0;
  CHECK_THROWS_AS(write_in_order(
                      &pool, 100000, [&](std::size_t, std::string&) { ++formatted; },
                      [&](const std::string&) {
                        if (++written == 10) throw Gone{};
                      }),
                  Gone);
  CHECK(written == 10);
  CHECK(formatted < 10 + 4);
  CHECK_THROWS_AS(write_in_order(
                      &pool, 100, [&](std::size_t, std::string&) { throw std::runtime_error("bad"); },
                      [&](const std::string&) { ++written; }),
                  std::runtime_error);
  CHECK(written == 10);
}
