#include "analysis/weights/weight_changes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "linalg/decompositions.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::analysis {
namespace {

using test::Golden;
using test::MemoryModel;

const std::string kSource = ATTNCTL_SOURCE_DIR;

ModelChanges compared(const model::Model& a, const model::Model& b) {
  Pool pool(2);
  return compare_weights(a, b, forward::Selection::all(a.config()), pool);
}

/// Changes the float32 values of a tensor.
void edit(MemoryModel& model, const std::string& name,
          const std::function<void(std::vector<float>&)>& change) {
  test::MemoryTensor& tensor = model.tensors.at(name);
  REQUIRE(tensor.dtype == DType::f32);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  change(values);
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
}

const WeightChange& weight_of(const ModelChanges& changes, std::optional<std::size_t> layer,
                              const std::string& name) {
  const auto found = std::ranges::find_if(
      changes.weights, [&](const WeightChange& each) { return each.layer == layer && each.name == name; });
  REQUIRE_MESSAGE(found != changes.weights.end(), name);
  return *found;
}

/// Returns the statuses of the heads as letters: i, r and c.
std::string letters(const ModelChanges& changes) {
  std::string all;
  for (const HeadChange& head : changes.heads) all += name_of(head.status)[0];
  return all;
}

/// The edit of tests/golden/make_changes.py.
void edit_attention(MemoryModel& model, const std::string& part) {
  for (auto& [name, tensor] : model.tensors) {
    if (name.find(part) == std::string::npos || tensor.shape.size() != 2) continue;
    const std::size_t columns = tensor.shape[1];
    edit(model, name, [&](std::vector<float>& values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto place = static_cast<int>((7 * (i / columns) + 13 * (i % columns)) % 11);
        values[i] += static_cast<float>(place - 5) / 512;
      }
    });
  }
}

TEST_CASE("changes of heads are those of dense matrices in NumPy") {
  struct Case {
    const char* name;
    const char* part;  // of the names of the attention matrices
  };
  for (const Case& each : {Case{"llama", "self_attn"}, Case{"bert", ".attention."}, Case{"gpt2", ".attn."}}) {
    const std::string name = each.name, part = each.part;
    CAPTURE(name);
    const MemoryModel a = MemoryModel::golden(name);
    MemoryModel b = a;
    edit_attention(b, part);
    const ModelChanges changes = compared(a.bound(), b.bound());
    const Golden golden(kSource + "/tests/golden/changes/" + name + ".npz");
    const auto check = [&](const std::string& array, const std::function<double(const HeadChange&)>& value) {
      CAPTURE(array);
      const std::vector<double> want = golden.array(array).values;
      REQUIRE(want.size() == changes.heads.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        CHECK(std::abs(value(changes.heads[i]) - want[i]) <= 1e-6);
    };
    check("qk_change", [](const HeadChange& head) { return head.qk.change; });
    check("ov_change", [](const HeadChange& head) { return head.ov.value().change; });
    check("qk_spectrum", [](const HeadChange& head) { return head.qk.spectrum; });
    check("ov_spectrum", [](const HeadChange& head) { return head.ov.value().spectrum; });
    check("qk_rank_a", [](const HeadChange& head) { return head.qk.rank_a.value(); });
    check("qk_rank_b", [](const HeadChange& head) { return head.qk.rank_b.value(); });
    check("ov_rank_b", [](const HeadChange& head) { return head.ov.value().rank_b.value(); });
    for (const Projection projection : kAllProjections) {
      const auto of = [projection](const HeadChange& head) -> const ProjectionChange& {
        return head.projections.at(static_cast<std::size_t>(projection)).value();
      };
      const std::string prefix(name_of(projection));
      check(prefix + "_change", [&](const HeadChange& head) { return of(head).change; });
      check(prefix + "_largest_angle", [&](const HeadChange& head) { return of(head).angles.back(); });
      check(prefix + "_smallest_angle", [&](const HeadChange& head) { return of(head).angles.front(); });
    }
    CHECK(letters(changes) == std::string(changes.heads.size(), 'c'));
  }
}

TEST_CASE("a model does not differ from itself, in every family with goldens") {
  for (const std::filesystem::path& folder : test::golden_models()) {
    CAPTURE(folder.filename().string());
    Warnings warnings;
    const ModelChanges changes =
        compared(test::bind_model(folder, warnings), test::bind_model(folder, warnings));
    CHECK_FALSE(changes.weights.empty());
    for (const WeightChange& weight : changes.weights) {
      CHECK(weight.status == ChangeStatus::identical);
      CHECK(weight.change == 0);
      CHECK(weight.elements == 0);
    }
    for (const HeadChange& head : changes.heads) {
      CHECK(head.status == ChangeStatus::identical);
      CHECK(head.qk.change == 0);
      CHECK(head.qk.spectrum == 0);
      if (head.ov) CHECK(head.ov->change == 0);
      for (const auto& projection : head.projections)
        if (projection)
          CHECK(std::ranges::all_of(projection->angles, [](double angle) { return angle == 0; }));
    }
  }
}

TEST_CASE("the changes from b to a are those from a to b") {
  const MemoryModel a = MemoryModel::golden("llama");
  MemoryModel b = a;
  edit_attention(b, "self_attn");
  const ModelChanges there = compared(a.bound(), b.bound()), back = compared(b.bound(), a.bound());
  for (std::size_t i = 0; i < there.heads.size(); ++i) {
    CHECK(there.heads[i].qk.change == doctest::Approx(back.heads[i].qk.change));
    CHECK(there.heads[i].qk.spectrum == doctest::Approx(back.heads[i].qk.spectrum));
    CHECK(there.heads[i].qk.rank_a.value() == doctest::Approx(back.heads[i].qk.rank_b.value()));
  }
  for (std::size_t i = 0; i < there.weights.size(); ++i) {
    CHECK(there.weights[i].status == back.weights[i].status);
    CHECK(there.weights[i].elements == back.weights[i].elements);
    CHECK(there.weights[i].largest == back.weights[i].largest);
  }
}

TEST_CASE(
    "a GGUF file has the heads of the checkpoint that it was made from, in another order of dimensions") {
  Warnings warnings;
  const ModelChanges changes =
      compared(test::bind_model(kSource + "/tests/golden/llama", warnings),
               test::bind_model(kSource + "/tests/golden/gguf/llama-f32.gguf", warnings));
  CHECK(letters(changes) == "iiiiiiiiiiii");
}

TEST_CASE("one element that differs is found, and the head that has it") {
  const MemoryModel a = MemoryModel::golden("llama");
  for (const std::uint32_t bit : {1U, 2U}) {
    CAPTURE(bit);
    MemoryModel b = a;
    edit(b, "model.layers.1.self_attn.q_proj.weight", [bit](std::vector<float>& values) {
      float& value = values[34 * 24 + 7];  // output 34: head 3, whose width is 10
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ bit);
    });
    const ModelChanges changes = compared(a.bound(), b.bound());
    CHECK(letters(changes) == (bit == 1 ? "iiiiiiiiirii" : "iiiiiiiiicii"));  // the last bit may be rounding
    const WeightChange& query = weight_of(changes, 1, "query");
    CHECK(query.elements == 1);
    CHECK(query.largest > 0);
    CHECK(std::ranges::count(changes.weights, ChangeStatus::identical, &WeightChange::status) ==
          static_cast<std::ptrdiff_t>(changes.weights.size() - 1));
  }
}

TEST_CASE("an infinite weight makes the largest difference undefined, whatever the other rows are") {
  const MemoryModel a = MemoryModel::golden("llama");
  MemoryModel b = a;
  edit(b, "model.embed_tokens.weight", [](std::vector<float>& values) {
    for (float& value : values) value += 1;
    values[0] = std::numeric_limits<float>::infinity();  // in the first of several tiles of rows
  });
  const WeightChange change = weight_of(compared(a.bound(), b.bound()), std::nullopt, "token embedding");
  CHECK(change.shape.at(0) > 32);
  CHECK(change.elements == change.shape.at(0) * change.shape.at(1));
  CHECK(std::isnan(change.largest));
  CHECK(std::isnan(change.change));
}

TEST_CASE("an update of low rank is found with its rank, weight and layer") {
  const MemoryModel a = MemoryModel::golden("bert");
  for (const double size : {1.0, 1e-3}) {
    CAPTURE(size);
    MemoryModel b = a;
    edit(b, "bert.encoder.layer.1.attention.self.value.weight", [&](std::vector<float>& values) {
      Random random(3);
      const OwnedMatrix<double> up = random_matrix(24, 2, 0.1 * size, random),
                                down = random_matrix(2, 24, 1, random);
      for (std::size_t i = 0; i < values.size(); ++i) {
        double sum = double{values[i]};
        for (std::size_t r = 0; r < 2; ++r) sum += up(i / 24, r) * down(r, i % 24);
        values[i] = static_cast<float>(sum);
      }
    });
    const ModelChanges changes = compared(a.bound(), b.bound());
    CHECK(letters(changes) == "iiiccc");
    CHECK(weight_of(changes, 1, "value").rank == 2);
    CHECK(std::ranges::count_if(changes.weights,
                                [](const WeightChange& each) { return each.rank.has_value(); }) == 1);
  }
}

/// Rounds to float16 (bits = 10) or bfloat16 (7).
float rounded(float value, int bits) {
  const float step = std::ldexp(1.0F, std::max(std::ilogb(value), bits == 10 ? -14 : -126) - bits);
  return std::nearbyint(value / step) * step;
}

TEST_CASE("rounding is told from other changes") {
  const MemoryModel a = MemoryModel::golden("bert");
  const auto each_matrix = [&](const std::function<void(std::vector<float>&)>& change) {
    MemoryModel b = a;
    for (const auto& [name, tensor] : a.tensors)
      if (tensor.shape.size() == 2 && tensor.dtype == DType::f32) edit(b, name, change);
    return b;
  };
  for (const int bits : {10, 7}) {
    CAPTURE(bits);
    const MemoryModel b = each_matrix([bits](std::vector<float>& values) {
      for (float& value : values) value = value == 0 ? 0 : rounded(value, bits);
    });
    CHECK(letters(compared(a.bound(), b.bound())) == "rrrrrr");
    CHECK(letters(compared(b.bound(), a.bound())) == "rrrrrr");
    CHECK(weight_of(compared(a.bound(), b.bound()), 0, "mlp.up").status == ChangeStatus::rounding);
  }
  // The same change of half a step, but not to the nearest number.
  const MemoryModel c = each_matrix([](std::vector<float>& values) {
    for (float& value : values) value = rounded(value, 10) * (1 + std::ldexp(1.0F, -9));
  });
  CHECK(letters(compared(a.bound(), c.bound())) == "cccccc");
}

TEST_CASE("quantized weights are equal up to rounding, other weights on the same grid are not") {
  // The rows of this model have 48 numbers: blocks of 16 with one scale each.
  MemoryModel a = MemoryModel::golden("bert").patched(R"({"hidden_size": 48})");
  for (auto& [name, tensor] : a.tensors)
    for (std::size_t& extent : tensor.shape)
      if (extent == 24) extent = 48;
  Random random(5);
  for (auto& [name, tensor] : a.tensors) {
    std::size_t size = 1;
    for (const std::size_t extent : tensor.shape) size *= extent;
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(random.normal());
    if (tensor.dtype == DType::f32) tensor = test::floats(tensor.shape, values);
  }
  const auto quantized = [&](int levels, float shift) {
    MemoryModel b = a;
    for (const auto& [name, tensor] : a.tensors) {
      if (name.find("attention") == std::string::npos || tensor.shape.size() != 2) continue;
      edit(b, name, [&](std::vector<float>& values) {
        for (std::size_t begin = 0; begin < values.size(); begin += 16) {
          const std::span<float> block = std::span(values).subspan(begin, 16);
          float largest = 0;
          for (const float value : block) largest = std::max(largest, std::abs(value));
          const float step = largest / static_cast<float>(levels);
          for (float& value : block) value = step * std::nearbyint(value / step + shift);
        }
      });
    }
    return b;
  };
  for (const int levels : {7, 15, 31, 127}) {
    CAPTURE(levels);
    CHECK(letters(compared(a.bound(), quantized(levels, 0).bound())) == "rrrrrr");
    CHECK(letters(compared(quantized(levels, 0).bound(), a.bound())) == "rrrrrr");
    CHECK(letters(compared(a.bound(), quantized(levels, 2).bound())) == "cccccc");
  }
}

TEST_CASE("models of another shape are refused with the first difference") {
  const MemoryModel a = MemoryModel::golden("llama"), b = MemoryModel::golden("bert");
  CHECK_THROWS_WITH_AS((void)compared(a.bound(), b.bound()),
                       doctest::Contains("layer 0: numbers of heads: 6 and 3"), Error);
}

TEST_CASE("principal angles are small for small rotations") {
  constexpr std::size_t d = 5;
  for (const double angle : {0.0, 1e-9, 0.3, 0.8, std::numbers::pi / 2}) {
    CAPTURE(angle);
    OwnedMatrix<double> a(2, d), b(3, d);
    a(0, 0) = a(1, 1) = 1;
    b(0, 0) = 1;
    b(1, 1) = std::cos(angle);
    b(1, 2) = std::sin(angle);
    b(2, 4) = 1;
    for (const std::vector<double>& angles :
         {linalg::principal_angles(a.view(), b.view()), linalg::principal_angles(b.view(), a.view())}) {
      REQUIRE(angles.size() == 2);
      CHECK(std::abs(angles[0]) <= 1e-15);
      CHECK(std::abs(angles[1] - angle) <= 1e-15);
    }
  }
}

TEST_CASE("leading singular values of a matrix of low rank are all its singular values") {
  Random random(1);
  const OwnedMatrix<double> left = random_matrix(40, 4, 1, random), right = random_matrix(4, 30, 1, random);
  OwnedMatrix<double> product(40, 30);
  for (std::size_t r = 0; r < 40; ++r) {
    for (std::size_t c = 0; c < 30; ++c) {
      for (std::size_t i = 0; i < 4; ++i) product(r, c) += left(r, i) * right(i, c);
    }
  }
  const std::vector<double> all = linalg::singular_values(product.view());
  for (const std::size_t most : {6U, 30U}) {
    const linalg::LeadingValues leading = linalg::leading_singular_values(product.view(), most);
    REQUIRE(leading.values.size() == most);
    for (std::size_t i = 0; i < most; ++i) CHECK(std::abs(leading.values[i] - all[i]) <= 1e-12 * all[0]);
    CHECK(leading.rest <= 1e-6 * all[0]);
  }
  const OwnedMatrix<double> full = random_matrix(40, 30, 1, random);
  const linalg::LeadingValues leading = linalg::leading_singular_values(full.view(), 6);
  CHECK(leading.values[0] <= linalg::singular_values(full.view())[0] * (1 + 1e-12));
  CHECK(std::hypot(leading.rest, norm(leading.values)) == doctest::Approx(norm(full.values())));
}

}  // namespace
}  // namespace attnctl::analysis
