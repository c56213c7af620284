#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

/// Whether numbers agree to the tolerance, and all else exactly; fields that are not wanted are not looked
/// at.
bool agree(const json& wanted, const json& found, double tolerance) {
  if (wanted.is_object() || wanted.is_array()) {
    if (wanted.is_array() && found.size() != wanted.size()) return false;
    for (const auto& [name, member] : wanted.items()) {
      const json& other = wanted.is_array() ? found.at(std::stoul(name)) : found.at(name);
      if (!agree(member, other, tolerance)) return false;
    }
    return true;
  }
  if (wanted.is_number_float() && found.is_number())
    return std::abs(wanted.get<double>() - found.get<double>()) <= tolerance;
  return wanted == found;
}

TEST_CASE("the probe and the roles over 200 sentences are what NumPy finds by the definitions") {
  const std::string folder = ATTNCTL_SOURCE_DIR "/tests/golden/study/";
  for (const std::string name : {"tiny-bert", "tiny-llama"}) {
    CAPTURE(name);
    const RunResult result =
        run_attnctl({"study", ATTNCTL_SOURCE_DIR "/data/" + name, "--input", folder + "corpus.txt",
                     "--measures", "probe,roles", "--batch-tokens", "500", "--format", "json"});
    REQUIRE(result.status == 0);
    const json found = json::parse(result.out);
    const json wanted = json::parse(slurp(folder + "roles-" + name + ".json"));
    for (const char* const section : {"probe", "roles"}) {
      CAPTURE(section);
      const json& rows = wanted.at(section);
      REQUIRE(found.at(section).size() == rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(rows[i].dump());
        CAPTURE(found[section][i].dump());
        // Ends of intervals are to the four decimals of Student's t.
        json exact = rows[i];
        for (const char* const end : {"low", "high", "interval"}) exact.erase(end);
        CHECK(agree(exact, found[section][i], 1e-6));
        CHECK(agree(rows[i], found[section][i], 1e-5));
      }
    }
  }
}

}  // namespace
}  // namespace attnctl::test
