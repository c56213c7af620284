#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "support/golden.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

const std::string kAll = "weights,subspaces,composition,map";

json document(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json parsed = json::parse(result.out);
  const json schema = json::parse(cli::schema_text("analysis"));
  CHECK(schema_breaches(schema, parsed) == std::vector<std::string>{});
  return parsed;
}

TEST_CASE("subspaces, composition and map are documents of the schema") {
  for (const char* model : {"data/tiny-llama", "tests/golden/llama", "tests/golden/albert",
                            "tests/golden/attention-qk-only", "tests/golden/attention"}) {
    for (const bool across : {false, true}) {
      CAPTURE(model);
      CAPTURE(across);
      std::vector<std::string> arguments = {
          "weights", model, "--include", kAll, "--similarity", "qk,ov,w_q,w_k,w_v,w_o", "--order", "cluster"};
      if (across) arguments.emplace_back("--across-layers");
      const json found = document(arguments);
      const std::size_t heads = found.at("subspaces").size();
      CHECK(heads == found.at("heads").size());
      CHECK(found.at("composition").size() == 3);
      CHECK(found.at("composition")[0].at("score").size() == heads);
      for (const json& map : found.at("map")) {
        json order = map.at("order");
        json known = map.at("names");
        known.insert(known.end(), map.at("undefined").begin(), map.at("undefined").end());
        std::sort(order.begin(), order.end());
        std::sort(known.begin(), known.end());
        CHECK(order == known);
        CHECK(map.at("x").size() == map.at("names").size());
        CHECK(map.at("linkage").size() + 1 == map.at("names").size());
        CHECK(map.at("layer").is_null() == across);
      }
    }
  }
}

TEST_CASE("the default documents have none of these sections, nor an order of heads") {
  const json found = document({"weights", "data/tiny-llama"});
  for (const char* section : {"subspaces", "projection_kernel", "composition", "map"}) {
    CHECK_FALSE(found.contains(section));
  }
  CHECK_FALSE(found.at("subspace_similarity")[0].contains("order"));
}

TEST_CASE("the map's order is SciPy's, and that of the heatmaps") {
  const json found = document(
      {"weights", "data/tiny-llama", "--include", "weights,map", "--across-layers", "--order", "cluster"});
  const Golden golden(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/subspaces/tiny-llama");
  for (std::size_t circuit = 0; circuit < 2; ++circuit) {
    const json& map = found.at("map")[circuit];
    const std::string name = map.at("similarity");
    json order = json::array();
    for (const std::int64_t leaf : golden.integers(name + "_leaves")) {
      order.push_back(map.at("names")[static_cast<std::size_t>(leaf)]);
    }
    CHECK(map.at("order") == order);
    CHECK(found.at("subspace_similarity")[circuit].at("order") == order);
    CHECK(map.at("stress").get<double>() ==
          doctest::Approx(golden.array(name + "_stress").values[0]).epsilon(1e-5));
  }
}

/// Returns an SVG of similarities of tiny-llama.
std::string similarity_svg(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"weights", "data/tiny-llama", "--include",
                                        "weights", "--format",        "svg"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return result.out;
}

std::vector<std::smatch> matches_in(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()};
}

constexpr const char* kTreeBar =
    R"re(<path d="M([\d.]+) [\d.]+V[\d.]+H([\d.]+)V[\d.]+"><title>1 - similarity ([\d.]+)<)re";

TEST_CASE("clustered heatmaps have SciPy's tree, and the layers of the heads") {
  const std::string svg = similarity_svg({"--across-layers", "--order", "cluster"});
  const auto bars = matches_in(svg, kTreeBar);
  const auto panels = matches_in(svg, R"re(<g transform="translate\(([\d.]+) )re");
  const auto strip =
      matches_in(svg, R"re(width="([\d.]+)" height="8" fill="#\w+" [^>]*><title>(\d)\.\d, layer (\d)<)re");
  constexpr std::size_t kHeads = 16;
  REQUIRE(bars.size() == 2 * (kHeads - 1));
  REQUIRE(panels.size() == 2);
  REQUIRE(strip.size() == 2 * kHeads);
  for (const std::smatch& head : strip) CHECK(head[2] == head[3]);
  const double cell = std::stod(strip[0][1]);
  const Golden golden(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/subspaces/tiny-llama");
  for (std::size_t circuit = 0; circuit < 2; ++circuit) {
    const std::string name = circuit == 0 ? "qk" : "ov";
    CAPTURE(name);
    const GoldenArray rows = golden.array(name + "_linkage");
    const std::vector<std::int64_t> leaves = golden.integers(name + "_leaves");
    REQUIRE(leaves.size() == kHeads);
    std::vector<double> x(kHeads);  // of the clusters, in SciPy's order
    for (std::size_t i = 0; i < kHeads; ++i) {
      x[static_cast<std::size_t>(leaves[i])] =
          std::stod(panels[circuit][1]) + (static_cast<double>(i) + 0.5) * cell;
    }
    for (std::size_t i = 0; i + 1 < kHeads; ++i) {
      const std::smatch& bar = bars[circuit * (kHeads - 1) + i];
      const double first = x.at(static_cast<std::size_t>(rows.values[i * 4]));
      const double second = x.at(static_cast<std::size_t>(rows.values[i * 4 + 1]));
      CHECK(std::abs(std::stod(bar[1]) - first) < 0.02);
      CHECK(std::abs(std::stod(bar[2]) - second) < 0.02);
      CHECK(std::abs(std::stod(bar[3]) - rows.values[i * 4 + 2]) < 6e-4);
      x.push_back((first + second) / 2);
    }
  }
  for (const char* layer : {"0", "1", "2", "3"})
    CHECK(matches_in(svg, (std::string(">layer ") + layer + "</text>").c_str()).size() == 1);
}

TEST_CASE("heatmaps of one layer have a tree without layers, and heatmaps in the model's order have none") {
  const std::string clustered = similarity_svg({"--order", "cluster"});
  CHECK(matches_in(clustered, kTreeBar).size() == 2 * 4 * 3);
  CHECK(clustered.find("layer 0<") == std::string::npos);
  CHECK(similarity_svg({"--across-layers"}).find("1 - similarity") == std::string::npos);
}

TEST_CASE("arrays of an NPZ equal the goldens") {
  const TempDir folder;
  const std::string path = (folder.path() / "s.npz").string();
  const RunResult result =
      run_attnctl({"weights", "tests/golden/llama", "--include", "subspaces,composition,map", "-o", path});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  Warnings warnings;
  const auto arrays = checkpoint::open_checkpoint(path, warnings);
  const auto array = [&](const std::string& name) {
    CAPTURE(name);
    const std::size_t index = arrays->find(name);
    REQUIRE(index != checkpoint::Checkpoint::npos);
    const checkpoint::TensorView tensor = arrays->tensor(index);
    GoldenArray got{tensor.shape, std::vector<double>(tensor.bytes.size() / size_of(tensor.dtype))};
    convert(tensor.dtype, tensor.bytes, got.values);
    return got;
  };
  const Golden golden(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/subspaces/llama");
  for (const char* name :
       {"w_q_effective_rank", "w_k_effective_rank", "w_v_effective_rank", "w_o_effective_rank", "ov_copying",
        "q_composition_score", "k_composition_score", "v_composition_score"}) {
    CAPTURE(name);
    const GoldenArray got = array(name);
    const std::string text = name;
    const GoldenArray want = golden.array(text.substr(0, text.find("_score")));
    REQUIRE(got.values.size() == want.values.size());
    for (std::size_t i = 0; i < want.values.size(); ++i) {
      if (std::isnan(want.values[i])) {
        CHECK(std::isnan(got.values[i]));
      } else {
        CHECK(got.values[i] == doctest::Approx(want.values[i]).epsilon(1e-5));
      }
    }
  }
  CHECK(array("w_k_effective_rank").shape == Shape{2, 6});
  CHECK(array("w_k_projection_kernel").shape == Shape{2, 6, 6});
  CHECK(array("w_q_principal_cosines").shape == Shape{2, 6, 6, 10});
  CHECK(array("w_q_projection_kernel_null").shape == Shape{2, 2});
  CHECK(array("q_composition_excess").shape == Shape{12, 12});
  CHECK(array("qk_map").shape == Shape{2, 6, 2});
  CHECK(array("qk_cluster_order").shape == Shape{2, 6});
  CHECK(array("ov_linkage_1").shape == Shape{5, 4});
  const GoldenArray kernel = array("w_k_projection_kernel");
  CHECK(kernel.values[1] == 1);  // heads 0 and 1 share a key/value head
  CHECK(kernel.values[3] < 0.99);
}

TEST_CASE("each table has its columns and a row for each head or pair") {
  struct Row {
    const char* table;
    const char* header;
    std::size_t rows;
  };
  for (const Row& row :
       {Row{"subspaces",
            "component,layer,head,name,kv_head,w_q_effective_rank,w_q_numerical_rank,w_k_effective_rank,"
            "w_k_numerical_rank,w_v_effective_rank,w_v_numerical_rank,w_o_effective_rank,w_o_numerical_rank,"
            "ov_copying\r\n",
            12},
        Row{"projection_kernel",
            "projection,component,layer_a,head_a,name_a,layer_b,head_b,name_b,rank_a,rank_b,kernel,largest_"
            "cosine,null_mean,"
            "null_deviation\r\n",
            4 * 2 * 36},
        Row{"composition",
            "kind,component,layer_a,head_a,name_a,layer_b,head_b,name_b,score,null_mean,excess\r\n", 3 * 36},
        Row{"map", "similarity,component,layer,head,name,order,x,y,stress,eigenvalue_share\r\n", 2 * 12}}) {
    CAPTURE(row.table);
    const RunResult result =
        run_attnctl({"weights", "tests/golden/llama", "--include", "subspaces,composition,map", "--format",
                     "csv", "--table", row.table});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(result.out.starts_with(row.header));
    CHECK(static_cast<std::size_t>(std::ranges::count(result.out, '\n')) == row.rows + 1);
  }
}

TEST_CASE("each has pictures and text, and analyze supports them too") {
  for (const char* include : {"subspaces", "composition", "map"}) {
    CAPTURE(include);
    const RunResult picture = run_attnctl(
        {"weights", "tests/golden/llama", "--include", include, "--order", "cluster", "--format", "svg"});
    CHECK(picture.status == 0);
    CHECK(picture.out.find("</svg>") != std::string::npos);
    const RunResult text =
        run_attnctl({"weights", "tests/golden/llama", "--include", include, "--format", "text"});
    CHECK(text.status == 0);
    CHECK(text.out.find("nan") == std::string::npos);
    CHECK(std::ranges::count(text.out, '\n') > 8);
    const RunResult analyzed = run_attnctl(
        {"analyze", "tests/golden/llama", "--ids", "1,2", "--include", include, "--format", "text"});
    CHECK(analyzed.status == 0);
    CHECK(analyzed.out.find(text.out.substr(text.out.find("\n\n"))) != std::string::npos);
  }
}

TEST_CASE("an unknown similarity or order is a usage error of one line") {
  const RunResult similarity =
      run_attnctl({"weights", "data/tiny-llama", "--include", "map", "--similarity", "qk,cosine"});
  CHECK(similarity.status == 2);
  CHECK(similarity.err ==
        "attnctl: --similarity: unsupported \"cosine\"; known: qk, ov, w_q, w_k, w_v, w_o\n");
  const RunResult order = run_attnctl({"weights", "data/tiny-llama", "--order", "size"});
  CHECK(order.status == 2);
  CHECK(std::ranges::count(order.err, '\n') == 1);
}

}  // namespace
}  // namespace attnctl::test
