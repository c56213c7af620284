#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/numbers.hpp"
#include "forward/run.hpp"
#include "reference/reference.hpp"
#include "support/capture.hpp"
#include "support/memory_checkpoint.hpp"

namespace {

using attnctl::OwnedMatrix;
using attnctl::Shape;
using attnctl::input::Batch;
using attnctl::input::Sequence;
using attnctl::test::CapturedSequence;
using attnctl::test::MemoryModel;

using Values = std::vector<double>;

Values normals(attnctl::Random& random, std::size_t count) {
  Values values(count);
  for (double& value : values) value = double{static_cast<float>(0.4 * random.normal())};
  return values;
}

/// Returns the product of a [rows, inner] and b [inner, cols].
Values product(const Values& a, const Values& b, std::size_t inner) {
  const std::size_t rows = a.size() / inner;
  const std::size_t cols = b.size() / inner;
  Values out(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t r = 0; r < inner; ++r) {
      for (std::size_t j = 0; j < cols; ++j) out[i * cols + j] += a[i * inner + r] * b[r * cols + j];
    }
  }
  return out;
}

/// Adds a projection in float64, because float32 would lose digits of the multiplied-out form.
void add(MemoryModel& model, const std::string& name, const Shape& shape, const Values& values) {
  attnctl::test::MemoryTensor tensor{attnctl::DType::f64, shape, {}};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  model.tensors[name] = std::move(tensor);
}

MemoryModel bare(const char* options) {
  MemoryModel model;
  model.config = nlohmann::ordered_json::parse(options);
  model.config["model_type"] = "attention";
  return model;
}

Batch batch_of(std::size_t n, std::size_t d) {
  attnctl::Random random(3);
  Sequence sequence;
  sequence.id = "0";
  sequence.embeddings = OwnedMatrix<float>(n, d);
  for (float& value : sequence.embeddings.values()) value = static_cast<float>(random.normal());
  Batch batch;
  batch.sequences.push_back(std::move(sequence));
  return batch;
}

double difference(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b) {
  REQUIRE(a.values().size() == b.values().size());
  double worst = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    const double distance = std::abs(double{a.values()[i]} - double{b.values()[i]});
    if (!(distance <= worst)) worst = distance;
  }
  return worst;
}

double largest(const OwnedMatrix<float>& a) {
  double top = 0;
  for (const float value : a.values()) top = std::max(top, std::abs(double{value}));
  return top;
}

bool same_bits(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b) {
  return std::ranges::equal(std::as_bytes(a.values()), std::as_bytes(b.values()));
}

}  // namespace

TEST_CASE("heads tied to one slice have equal patterns and separate output projections") {
  attnctl::Random random(1);
  const std::size_t d = 12;
  MemoryModel model = bare(R"({"heads": 4, "head_slices": [1, 0, 1, 1]})");
  for (const char* name : {"W_q", "W_k", "W_v"}) add(model, name, {d, 8}, normals(random, d * 8));
  add(model, "W_o", {16, d}, normals(random, 16 * d));
  const attnctl::model::Model bound = model.bound();
  const Batch batch = batch_of(9, d);
  const CapturedSequence all = attnctl::test::capture_all(bound, batch, {.threads = 2}).at(0);
  for (const std::size_t head : {2UL, 3UL}) {
    CHECK(same_bits(all.heads.at({0, 0}).pattern, all.heads.at({0, head}).pattern));
    CHECK(same_bits(all.heads.at({0, 0}).z, all.heads.at({0, head}).z));
  }
  CHECK_FALSE(same_bits(all.heads.at({0, 0}).pattern, all.heads.at({0, 1}).pattern));

  // A model without shared slices, with a copy of the slice for each head that uses it, gives the same
  // result.
  MemoryModel untied = bare(R"({"heads": 4})");
  for (const char* name : {"W_q", "W_k", "W_v"}) {
    Values stored(d * 8);
    attnctl::convert(attnctl::DType::f64, model.tensors.at(name).bytes, std::span<double>(stored));
    Values wide(d * 16);
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t head = 0; head < 4; ++head) {
        const std::size_t slice = head == 1 ? 0 : 1;
        for (std::size_t c = 0; c < 4; ++c) wide[i * 16 + head * 4 + c] = stored[i * 8 + slice * 4 + c];
      }
    }
    add(untied, name, {d, 16}, wide);
  }
  untied.tensors["W_o"] = model.tensors.at("W_o");
  const CapturedSequence twin = attnctl::test::capture_all(untied.bound(), batch).at(0);
  for (const auto& [id, head] : all.heads) CHECK(difference(head.pattern, twin.heads.at(id).pattern) < 1e-6);
  CHECK(difference(all.output.at(0), twin.output.at(0)) < 1e-6 * largest(twin.output.at(0)));

  // A single head whose slice is not the first.
  const attnctl::forward::Selection third{.heads = {{0, 2}}};
  attnctl::test::Capture capture(third, {.scores = true});
  attnctl::Pool pool(1);
  attnctl::Warnings warnings;
  attnctl::forward::RunContext context{pool, warnings};
  attnctl::forward::Observer* const observers[] = {&capture};
  attnctl::forward::run_forward(bound, batch, third, observers, context);
  CHECK(difference(capture.sequences.at(0).heads.at({0, 2}).pattern, all.heads.at({0, 2}).pattern) < 1e-6);
}

TEST_CASE("factorised projections equal the product of the two factors") {
  attnctl::Random random(2);
  const std::size_t d = 12;
  const std::size_t heads = 4;
  struct Projection {
    const char* name;
    std::size_t in, rank, out;
  };
  // The ranks are below, at and above the rank of the projection.
  const Projection projections[] = {
      {"W_q", d, 3, heads * 3}, {"W_k", d, 6, 2 * 3}, {"W_v", d, 15, 2 * 5}, {"W_o", heads * 5, 4, d}};
  const char* const config = R"({"heads": 4, "kv_heads": 2, "causal": true})";
  MemoryModel thin = bare(config);
  MemoryModel whole = bare(config);
  for (const Projection& p : projections) {
    const Values a = normals(random, p.in * p.rank);
    const Values b = normals(random, p.rank * p.out);
    add(thin, std::string(p.name) + "_a", {p.in, p.rank}, a);
    add(thin, std::string(p.name) + "_b", {p.rank, p.out}, b);
    add(whole, p.name, {p.in, p.out}, product(a, b, p.rank));
  }
  add(thin, "b_v", {10}, normals(random, 10));
  add(thin, "b_o", {d}, normals(random, d));
  for (const char* bias : {"b_v", "b_o"}) whole.tensors[bias] = thin.tensors.at(bias);

  const Batch batch = batch_of(11, d);
  const attnctl::model::Model model = thin.bound();
  CHECK(model.layer(0)->query.factorised());
  CHECK(model.layer(0)->query.rank() == 3);
  const CapturedSequence got = attnctl::test::capture_all(model, batch, {.threads = 2}).at(0);
  const CapturedSequence want = attnctl::test::capture_all(whole.bound(), batch).at(0);
  for (const auto& [id, head] : got.heads) {
    CHECK(difference(head.pattern, want.heads.at(id).pattern) <= 1e-6);
    CHECK(difference(head.z, want.heads.at(id).z) <= 1e-6 * largest(want.heads.at(id).z));
  }
  CHECK(difference(got.output.at(0), want.output.at(0)) <= 1e-6 * largest(want.output.at(0)));

  attnctl::Pool pool(2);
  const auto exact =
      attnctl::reference::run_reference(model, batch.sequences[0], 0, false, pool).layers.at(0);
  const auto twin =
      attnctl::reference::run_reference(whole.bound(), batch.sequences[0], 0, false, pool).layers.at(0);
  for (std::size_t i = 0; i < exact.output.values().size(); ++i) {
    // The only difference: binding rounds the product to float32.
    CHECK(std::abs(exact.output.values()[i] - twin.output.values()[i]) < 1e-5);
  }
}
