// Looks at every sample of a set, in threads.
#pragma once
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/cancel.hpp"
#include "core/run/inputs.hpp"
#include "core/runtime/call.hpp"
#include "plugins/jobs/data/in_order.hpp"
#include "plugins/jobs/loading/shard_set.hpp"

namespace kinora::core {

// Calls look(shard, i, out) for each sample i of each shard, in several threads; each shard has an Of of its
// own, `out`. Calls take(number, out) in this thread, shard by shard in their order. Returns the damaged
// samples, for which look() throws Error(KINORA_ERROR_DATA). Throws the other errors of look(), and
// Error(KINORA_ERROR_CANCELLED). label: names the progress, which is shown for large sets.
template <class Of, class Look, class Take>
std::vector<UnreadSample> scan_samples(const ShardSet& set, const std::string& label, const Look& look,
                                       const Take& take) {
  constexpr uint64_t kLarge = 50'000;
  constexpr size_t kRemote = 16;  // threads, which wait for the network most of the time
  struct Piece {
    Of of;
    std::vector<UnreadSample> damaged;
  };
  const auto piece_of = [&](size_t number) {
    const auto shard = set.shard(number);
    Piece out;
    for (uint64_t i = 0; i < set.samples()[number]; ++i) {
      if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
      try {
        look(*shard, i, out.of);
      } catch (const Error& e) {
        if (e.code() != KINORA_ERROR_DATA) throw;
        out.damaged.push_back({set.text_of(number, i), e.what()});
      }
    }
    return out;
  };
  std::optional<Progress> progress;
  if (set.size() > kLarge) progress.emplace(label, static_cast<int64_t>(set.names().size()), "shards");
  std::vector<UnreadSample> damaged;
  const size_t threads = is_uri(set.path()) ? kRemote : std::max(1u, std::thread::hardware_concurrency());
  data::InOrder<Piece>(set.names().size(), threads)
      .run([&](size_t number, const auto& push) { push(piece_of(number)); },
           [&](size_t number, Piece piece) {
             std::move(piece.damaged.begin(), piece.damaged.end(), std::back_inserter(damaged));
             take(number, std::move(piece.of));
             if (progress) progress->update(static_cast<int64_t>(number) + 1);
           });
  return damaged;
}

}  // namespace kinora::core
