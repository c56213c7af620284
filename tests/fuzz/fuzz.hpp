#pragma once

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "base/text.hpp"
#include "report/page.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"
#include "results/results.hpp"

namespace attnctl::fuzz {

/// A function that must accept all bytes. It may only throw Error, with a message of one printable line.
struct Target {
  std::string_view name;
  void (*run)(std::string_view bytes);
};

/// Returns the targets of this program.
inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

/// Ends the program unless `holds`.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: not true: %s\n", what);
  std::abort();
}

/// Calls `step`. Returns false if it throws an Error of one printable line.
template <typename Step>
bool attempt(Step step) {
  try {
    step();
    return true;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.empty() || escaped(message) != message)
      require(false, ("an error is one printable line: " + escaped(message)).c_str());
    return false;
  }
}

/// Formats results in all ways that need no other library. The text is thrown away.
inline void write_all(const Results& results) {
  static Pool pool(1);
  OutputFile out("/dev/null");
  if (!results.attention.empty()) report::write_page(out, results, {}, {}, {}, pool);
  report::write_json(out, results.document);
  for (const Table& table : results.tables) report::write_csv_table(out, table);
  out.write(report::text_page(results.text, {}));
}

}  // namespace attnctl::fuzz

/// Defines a target, whose bytes have the name `bytes`.
#define ATTNCTL_FUZZ_TARGET(name)                                                       \
  static void fuzz_##name(std::string_view bytes);                                      \
  [[maybe_unused]] static const auto& registered_##name =                               \
      attnctl::fuzz::targets().emplace_back(attnctl::fuzz::Target{#name, fuzz_##name}); \
  static void fuzz_##name(std::string_view bytes)
