#include "study/corpus/shuffled_tokens.hpp"

#include <utility>
#include <vector>

#include "base/random.hpp"
#include "study/corpus/token_frequencies.hpp"

namespace attnctl {

Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed, std::uint64_t repetition) {
  Batch batch = block.batch;
  const std::uint64_t of_block = Random(Random(seed, repetition).next(), block.number).next();
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    Sequence& sequence = batch.sequences[s];
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
      if (is_ordinary(sequence, i)) places.push_back(i);
    }
    Random random(of_block, s);
    for (std::size_t left = places.size(); left > 1; --left) {  // Fisher and Yates
      const std::size_t other = random.next() % left;
      std::swap(sequence.ids[places[left - 1]], sequence.ids[places[other]]);
    }
  }
  return batch;
}

}  // namespace attnctl
