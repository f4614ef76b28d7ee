#include "plugins/jobs/loading/order.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kinora::core {

// A Feistel network permutes the numbers of 2 * half_bits bits (Luby and Rackoff 1988); walking its cycle
// until a number is below count permutes those below count (Black and Rogaway 2002). The domain has at least
// 256 numbers, since a few bits leave a network few permutations, and at most four times count above that.
uint64_t permuted(uint64_t n, uint64_t count, const Random& random, uint64_t which) {
  unsigned half_bits = 4;
  while (half_bits < 32 && count > uint64_t{1} << 2 * half_bits) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t x = n;
  do {
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (random.bits(round << 32 | right, which)[0] & mask);
      left = right;
      right = mixed;
    }
    x = left << half_bits | right;
  } while (x >= count);
  return x;
}

ShardOrder::ShardOrder(std::vector<uint64_t> samples, uint64_t shuffle, uint64_t seed,
                       const std::string& stream)
    : samples_(std::move(samples)),
      shuffle_(shuffle),
      size_(std::accumulate(samples_.begin(), samples_.end(), uint64_t{0})),
      random_(seed, stream) {}

const ShardOrder::Epoch& ShardOrder::epoch(uint64_t number) const {
  return epochs_.get(number, [this](uint64_t which) {
    Epoch out{which, {}, {}};
    constexpr uint64_t kShards = uint64_t{1} << 63;  // blocks of samples are the other permutations
    for (size_t i = 0; i < samples_.size(); ++i)
      out.shards.push_back(shuffle_ > 1 ? permuted(i, samples_.size(), random_, kShards | which) : i);
    for (const size_t shard : out.shards)
      out.ends.push_back((out.ends.empty() ? 0 : out.ends.back()) + samples_[shard]);
    return out;
  });
}

ShardOrder::Place ShardOrder::at(uint64_t n) const {
  const Epoch& now = epoch(n / size_);
  uint64_t i = n % size_;
  if (shuffle_ > 1) {
    const uint64_t block = i / shuffle_, first = block * shuffle_;
    const uint64_t blocks = (size_ - 1) / shuffle_ + 1;
    i = first + permuted(i - first, std::min(shuffle_, size_ - first), random_, now.number * blocks + block);
  }
  const auto end = std::upper_bound(now.ends.begin(), now.ends.end(), i);
  const size_t shard = now.shards[static_cast<size_t>(end - now.ends.begin())];
  return {shard, i - (*end - samples_[shard])};
}

std::vector<uint64_t> slots_of_weights(const std::vector<double>& weights) {
  constexpr int kBits = 48;
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;  // of weights of at most 1, which is finite
  for (const double weight : weights) sum += weight / most;
  std::vector<uint64_t> out;
  for (const double weight : weights)
    out.push_back(static_cast<uint64_t>(std::llround(std::ldexp(weight / most / sum, kBits))));
  return out;
}

BlendOrder::BlendOrder(std::vector<uint64_t> slots, uint64_t seed, const std::string& stream)
    : slots_(std::move(slots)), left_(slots_.size()), random_(seed, stream) {
  std::partial_sum(slots_.rbegin(), slots_.rend(), left_.rbegin());
}

// Each part takes its share of what the parts before it leave, rounded down. So a whole number of passes has
// exactly the slots of each.
std::vector<uint64_t> BlendOrder::counts(uint64_t slots) const {
  __extension__ using Wide = unsigned __int128;
  std::vector<uint64_t> out;
  for (size_t part = 0; part < slots_.size(); ++part) {
    out.push_back(static_cast<uint64_t>(Wide{slots} * slots_[part] / left_[part]));
    slots -= out.back();
  }
  return out;
}

// counts() grows by less than two parts' worth at each slot and never shrinks, so the differences between the
// ends of a block are what each part has in it. No block holds slots of two passes.
std::vector<BlendOrder::Turn> BlendOrder::deal(uint64_t block) const {
  const uint64_t pass = left_[0], in_pass = block % blocks() * kBlock,
                 first = block / blocks() * pass + in_pass, size = std::min(kBlock, pass - in_pass);
  auto next = counts(first);
  const auto ends = counts(first + size);
  std::vector<size_t> parts;
  for (size_t part = 0; part < ends.size(); ++part) parts.insert(parts.end(), ends[part] - next[part], part);
  std::vector<Turn> out;
  for (uint64_t i = 0; i < size; ++i) {
    const size_t part = parts[permuted(i, size, random_, block)];
    out.push_back({part, next[part]++});
  }
  return out;
}

BlendOrder::Turn BlendOrder::at(uint64_t slot) const {
  const uint64_t pass = slot / left_[0], in_pass = slot % left_[0];
  const auto make = [this](uint64_t block) { return deal(block); };
  return blocks_.get(pass * blocks() + in_pass / kBlock, make)[in_pass % kBlock];
}

}  // namespace kinora::core
