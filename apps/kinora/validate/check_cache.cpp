// Checks of caches: attention of a few frames, one after the other, behind the chain with the cache's link.
#include <cmath>

#include "apps/kinora/validate/trial_chain.hpp"
#include "apps/kinora/validate/trial_link.hpp"
#include "kinora/abi/cache.h"
#include "kinora/context.hpp"

namespace kinora {
namespace cache_checks_of {
namespace {

// Keys in eight bits differ by 0.01; those of other tokens by 1.
constexpr double kMostError = 0.05;
constexpr int64_t kFrame = 4, kHeads = 2, kSize = 3;  // tokens of a frame, heads and channels of each

Tensor drawn(uint64_t seed, int64_t tokens) { return normal(seed, {1, tokens, kHeads, kSize}); }

Tensor joined(const std::vector<Tensor>& pieces) { return op("aten::cat", "", {pieces, 1}); }

Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto heads_first = [](const Tensor& x) { return op("aten::transpose", "int", {x, 1, 2}); };
  return heads_first(op("aten::scaled_dot_product_attention", "",
                        {heads_first(q), heads_first(k), heads_first(v), Tensor(), 0.0, false, 1.0}));
}

class Cache {
 public:
  explicit Cache(const PluginTrial& t)
      : options_(t.options()),
        api(t.table<kinora_cache>()),
        self_((t.now("create()"), api.create(&watching_host(), options_.abi(), 0)), api.destroy) {
    if (!self_) throw Skipped{"create(): " + last_message() + "; give its options with --set NAME=VALUE"};
    const kinora_link* link = nullptr;
    require_ok([&] { return api.link(self(), &link); }, "link()");
    if (!link || link->level != KINORA_LEVEL_CACHE)
      throw Error(KINORA_ERROR_FAILED, "link() gave no link of level KINORA_LEVEL_CACHE");
    link_.emplace(link);
    chain_ = std::make_unique<TrialChain>(core::PlainChainOptions{.seed = t.subject.seed},
                                          std::vector{link_->link()});
    chain_->ready();
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache() { watch().now("destroy()"); }
  void* self() const { return self_.get(); }

  // One forward of one attention, of as many frames as q has tokens for, `frames` frames after the first.
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, int64_t frames, uint32_t branch = 0,
                const char* name = "blocks.0") const {
    const Context<Tensor> context(chain_->context());
    chain_->begin(!GradMode::enabled(), frames, branch);
    Attention<Tensor> how;
    how.name = name;
    const Tensor tokens = q.detach().reshape({1, q.size(1), kHeads * kSize});
    context.sequence(tokens, q.size(1) / kFrame, 2, 2, how.q_seq);
    how.kv_seq = how.q_seq;
    watch().now(fmt::format("attention of its link, {} frames after the first", frames));
    return context.attention(q, k, v, how);
  }
  int64_t tokens(uint32_t branch) const {
    int64_t out = -1;
    require_ok([&] { return api.tokens(self(), branch, &out); }, "tokens()");
    return out;
  }
  int64_t bytes() const {
    int64_t out = -1;
    require_ok([&] { return api.bytes(self(), &out); }, "bytes()");
    return out;
  }

 private:
  core::Options options_;

 public:
  const kinora_cache& api;

 private:
  std::unique_ptr<void, void (*)(void*)> self_;
  std::optional<TrialLink> link_;
  std::unique_ptr<TrialChain> chain_;
};

void require_attention(const Tensor& found, const Tensor& q, const Tensor& k, const Tensor& v,
                       const std::string& what) {
  const double off = relative_error(numbers(found), numbers(plain_attention(q, k, v)));
  if (!(off <= kMostError))
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format(
            "attention of {} differs by {:.2g} of its size; store keys and values by the "
            "attention's name and the pass's branch, and replace those from a forward's first INDEX on",
            what, off));
}

std::string check_keys(PluginTrial& t) {
  const GradMode off(false);
  const Cache cache(t);
  const uint64_t seed = t.subject.seed;
  std::vector<Tensor> k[2], v[2];
  for (int64_t frame = 0; frame < 3; ++frame)
    for (uint64_t i : {0, 1}) {  // two attentions
      const Tensor q = drawn(seed + 1, kFrame);
      const auto name = fmt::format("blocks.{}", i);
      // A first pass over the frame, which the second one replaces.
      cache.attend(q, drawn(seed + 7, kFrame), drawn(seed + 8, kFrame), frame, 0, name.c_str());
      const auto at = seed + 10 * static_cast<uint64_t>(frame) + 100 * i;
      k[i].push_back(drawn(at + 2, kFrame));
      v[i].push_back(drawn(at + 3, kFrame));
      const Tensor made = cache.attend(q, k[i].back(), v[i].back(), frame, 0, name.c_str());
      if (cache.tokens(0) < kFrame * (frame + 1))
        throw Skipped{"it evicts tokens with these options; give others with --set"};
      require_attention(made, q, joined(k[i]), joined(v[i]),
                        fmt::format("frame {} to frames 0 to {}", frame, frame));
    }
  const Tensor q = drawn(seed + 4, kFrame);
  require_attention(cache.attend(q, k[0][1], v[0][1], 0), q, k[0][1], v[0][1],
                    "a forward from INDEX 0, which starts over,");
  require_attention(cache.attend(q, k[0][2], v[0][2], 0, 1), q, k[0][2], v[0][2], "another branch");
  return "";
}

void require_tokens(const Cache& cache, uint32_t branch, int64_t expected, const std::string& after) {
  if (const int64_t found = cache.tokens(branch); found != expected)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("after {} tokens({}) is {}; {} is expected", after, branch, found, expected));
}

std::string check_storage(PluginTrial& t) {
  const GradMode off(false);
  const Cache cache(t);
  const int64_t empty = cache.bytes();
  const auto fill = [&](uint32_t branch) {
    for (int64_t frame = 0; frame < 3; ++frame) {
      const Tensor x = drawn(t.subject.seed, kFrame);
      cache.attend(x, x, x, frame, branch);
    }
  };
  require_tokens(cache, 0, 0, "create()");
  fill(0);
  const int64_t stored = cache.tokens(0), one = cache.bytes();
  fill(1);
  const int64_t both = cache.bytes();
  if (stored < kFrame || stored > 3 * kFrame || one <= empty || both <= one)
    throw Error(KINORA_ERROR_FAILED, fmt::format("3 frames of {} tokens are {} tokens and {} bytes ({} "
                                                 "before), and {} bytes with a second branch; "
                                                 "count each branch's tokens and all storage",
                                                 kFrame, stored, one, empty, both));
  require_ok([&] { return cache.api.trim(cache.self(), 0, 2 * kFrame); }, "trim()");
  // The last frame's tokens are stored, whatever was evicted.
  require_tokens(cache, 0, stored - kFrame, fmt::format("trim(0, {})", 2 * kFrame));
  require_tokens(cache, 1, stored, "trim() of branch 0");
  require_ok([&] { return cache.api.reset(cache.self(), 1); }, "reset()");
  require_tokens(cache, 1, 0, "reset(1)");
  if (cache.bytes() >= both)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("bytes() is {} before reset() of a branch and {} after; reset() frees its storage", both,
                    cache.bytes()));
  require_ok([&] { return cache.api.reset(cache.self(), KINORA_BRANCH_ALL); }, "reset()");
  require_tokens(cache, 0, 0, "reset(KINORA_BRANCH_ALL)");
  if (cache.bytes() > empty)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("bytes() is {} after reset(KINORA_BRANCH_ALL) and {} after create()",
                            cache.bytes(), empty));
  return fmt::format("{} bytes for {} tokens", one, stored);
}

// With queries of zeros, attention is the mean of the values that it sees: 1 for a pinned token, else 0.
std::string check_pinned(PluginTrial& t) {
  const GradMode off(false);
  const Cache cache(t);
  constexpr int64_t kFrames = 12;
  require_ok([&] { return cache.api.pin(cache.self(), 0, kFrame); }, "pin()");
  int64_t stored = 0;
  for (int64_t frame = 0; frame < kFrames; ++frame) {
    const Tensor x = drawn(t.subject.seed, kFrame);
    const Tensor made = cache.attend(full_like(x, 0.0), x, full_like(x, frame == 0 ? 1.0 : 0.0), frame);
    stored = cache.tokens(0);
    const double pinned = numbers(made)[0] * static_cast<double>(stored);
    if (!(std::abs(pinned - kFrame) <= kMostError * kFrame))
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format(
              "frame {} sees {:.3g} of the {} pinned tokens among {}; a pinned token is never evicted", frame,
              pinned, kFrame, stored));
  }
  return stored < kFrames * kFrame ? fmt::format("{} of {} tokens are stored", stored, kFrames * kFrame)
                                   : "no token is evicted with these options";
}

std::string check_refusal(PluginTrial& t) {
  const Cache cache(t);
  const Tensor x = drawn(t.subject.seed, kFrame), k = x + 0.0;
  check(tensors_api().set_requires_grad(k.get(), 1));
  int32_t status = KINORA_OK;
  try {
    cache.attend(x, k, x, 0);
  } catch (const Error& e) {
    status = e.code();
  }
  if (status != KINORA_ERROR_INVALID)
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("attention of keys that require a gradient returned {}; return "
                            "KINORA_ERROR_INVALID ({}), since the stored keys have none",
                            status, KINORA_ERROR_INVALID));
  return "";
}

std::string check_handles(PluginTrial& t) {
  require_no_handles(t.subject.plugin->tier, [&] {
    const GradMode off(false);
    const Cache cache(t);
    const auto attend = [&](int64_t frame, uint32_t branch) {
      const Tensor x = drawn(t.subject.seed, kFrame);
      cache.attend(x, x, x, frame, branch);
    };
    for (int64_t frame = 0; frame < 12; ++frame) attend(frame, 0);  // more than a small window has
    for (int64_t frame = 0; frame < 3; ++frame) attend(frame, 1);
    require_ok([&] { return cache.api.trim(cache.self(), 1, 2 * kFrame); }, "trim()");
    require_ok([&] { return cache.api.reset(cache.self(), 1); }, "reset()");
    attend(0, 0);
  });
  return "";
}

constexpr Check kChecks[] = {
    {"keys", "cache", "each frame sees the keys and values of all before it, by attention and branch", false,
     nullptr, check_keys},
    {"storage", "cache", "tokens() and bytes() count each branch, and trim() and reset() give back", false,
     nullptr, check_storage},
    {"pinned", "cache", "pinned tokens are never evicted", false, nullptr, check_pinned},
    {"cache-gradients", "cache", "keys that require a gradient are refused", false, nullptr, check_refusal},
    {"cache-leaks", "cache", "every handle to a tensor is released, at the latest by destroy()", false,
     nullptr, check_handles}};

}  // namespace
}  // namespace cache_checks_of

std::span<const Check> cache_checks() { return cache_checks_of::kChecks; }

}  // namespace kinora
