#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "causal/interventions.hpp"
#include "support/memory_checkpoint.hpp"

// The cost of removing each head of a decoder of the size of MiniLM (6 layers, 12 heads, width 384), relative
// to one whole pass for each head. Prints ratios of times that are measured alternately in one run, on one
// thread.
namespace {

using namespace attnctl;

constexpr std::size_t kLayers = 6, kHeads = 12, kWidth = 384;

model::Model random_decoder(std::size_t vocabulary) {
  test::MemoryModel made;
  made.config = {{"model_type", "gpt2"},     {"n_layer", kLayers}, {"n_head", kHeads}, {"n_embd", kWidth},
                 {"vocab_size", vocabulary}, {"n_positions", 64},  {"n_ctx", 64}};
  Random random(1);
  const auto add = [&](const std::string& name, const Shape& shape, double deviation) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(deviation * random.normal());
    made.tensors["transformer." + name] = test::floats(shape, values);
  };
  const auto add_norm = [&](const std::string& name) {
    made.tensors["transformer." + name + ".weight"] =
        test::floats({kWidth}, std::vector<float>(kWidth, 1.0F));
    add(name + ".bias", {kWidth}, 0.02);
  };
  add("wte.weight", {vocabulary, kWidth}, 0.05);
  add("wpe.weight", {64, kWidth}, 0.05);
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::string at = "h." + std::to_string(layer) + ".";
    add_norm(at + "ln_1");
    add(at + "attn.c_attn.weight", {kWidth, 3 * kWidth}, 0.08);
    add(at + "attn.c_attn.bias", {3 * kWidth}, 0.02);
    add(at + "attn.c_proj.weight", {kWidth, kWidth}, 0.08);
    add(at + "attn.c_proj.bias", {kWidth}, 0.02);
    add_norm(at + "ln_2");
    add(at + "mlp.c_fc.weight", {kWidth, 4 * kWidth}, 0.08);
    add(at + "mlp.c_fc.bias", {4 * kWidth}, 0.02);
    add(at + "mlp.c_proj.weight", {4 * kWidth, kWidth}, 0.04);
    add(at + "mlp.c_proj.bias", {kWidth}, 0.02);
  }
  add_norm("ln_f");
  return made.bound();
}

double seconds(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<causal::ScoredQueries> next_tokens(const input::Batch& batch) {
  std::vector<causal::ScoredQueries> scored;
  for (const input::Sequence& sequence : batch.sequences) {
    causal::ScoredQueries& of = scored.emplace_back();
    for (std::size_t i = 0; i + 1 < sequence.ids.size(); ++i) {
      of.queries.push_back(i);
      of.targets.push_back(sequence.ids[i + 1]);
    }
  }
  return scored;
}

void measure(std::size_t vocabulary, std::size_t sentences) {
  const model::Model model = random_decoder(vocabulary);
  Random random(2);
  std::vector<input::Batch> blocks(1);  // of about 256 tokens, as in a study
  std::size_t tokens = 0;
  for (std::size_t s = 0; s < sentences; ++s) {
    if (tokens > 230) {
      blocks.emplace_back();
      tokens = 0;
    }
    input::Sequence& sequence = blocks.back().sequences.emplace_back();
    const std::size_t length = 12 + random.next() % 27;
    for (std::size_t i = 0; i < length; ++i)
      sequence.ids.push_back(static_cast<std::int64_t>(random.next() % vocabulary));
    tokens += length;
  }
  Pool pool(1);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  double whole = 0, single = 0, removal = 0;
  for (int round = -1; round < 1; ++round) {  // the first round warms up, with one block
    for (const input::Batch& block : std::span(blocks).first(round < 0 ? 1 : blocks.size())) {
      const std::vector<causal::ScoredQueries> scored = next_tokens(block);
      const double of_block = seconds([&] {
        const causal::CausalPass pass({.model = model, .batch = block, .scored = scored}, context);
      });
      const double of_sentences = seconds([&] {
        for (std::size_t s = 0; s < block.sequences.size(); ++s) {
          input::Batch one;
          one.sequences = {block.sequences[s]};
          const causal::CausalPass pass(
              {.model = model, .batch = one, .scored = std::span(scored).subspan(s, 1)}, context);
        }
      });
      const double of_removal = seconds([&] {
        const causal::CausalPass pass({.model = model, .batch = block, .scored = scored}, context);
        std::vector<causal::Intervention> all;
        for (std::size_t layer = 0; layer < kLayers; ++layer) {
          for (std::size_t head = 0; head < kHeads; ++head) {
            for (std::size_t s = 0; s < block.sequences.size(); ++s)
              all.push_back({s, {{{layer, head}, {}}}, {}});
          }
        }
        (void)pass.run(all, context);
      });
      if (round < 0) continue;
      whole += of_block;
      single += of_sentences;
      removal += of_removal;
    }
  }
  const double heads = kLayers * kHeads;
  std::printf(
      "vocabulary %zu, %zu sentences: removing %g heads takes %.2f s; this is %.3f of %g whole passes over "
      "blocks "
      "of sentences, %.3f of %g whole passes over single sentences\n",
      vocabulary, sentences, heads, removal, removal / (heads * whole), heads, removal / (heads * single),
      heads);
}

}  // namespace

// Usage: attnctl_causal_bench [SENTENCES]     default: 20; with 200, it takes ten minutes
int main(int argc, char** argv) {
  const std::size_t sentences = argc > 1 ? parse_number(argv[1]).value_or(20) : 20;
  for (const std::size_t vocabulary : {2'048, 30'522}) measure(vocabulary, sentences);
  return EXIT_SUCCESS;
}
