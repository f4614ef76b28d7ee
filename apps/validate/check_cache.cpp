// Checks of caches: attention of a few frames, one after the other, behind the chain with the cache's link.
#include <cmath>
#include <map>

#include "apps/validate/trial_chain.hpp"
#include "apps/validate/trial_link.hpp"
#include "kinora/abi/cache.h"
#include "kinora/context.hpp"

namespace kinora {
namespace cache_checks_of {
namespace {

// Attention of keys and values in eight bits differs by 0.01, in four bits by 0.06 and at most by 0.3 for heads of this
// size; that of other tokens by 1.
constexpr double kMostError = 0.05, kMostRounding = 0.3;
constexpr int64_t kFrame = 4, kHeads = 2, kSize = 2;  // tokens of a frame, heads and channels of each

// The rotation that the trial's queries and keys are said to have, by their time.
constexpr double kFrequency[kSize / 2] = {0.5};

kinora_rope rotation() {
  kinora_rope out{};
  out.struct_size = sizeof out;
  out.layout = KINORA_ROPE_HALVES;
  out.n_axes = 1;
  out.frequency = kFrequency;
  out.pairs[0] = kSize / 2;
  out.column[0] = KINORA_TOKEN_TIME;
  out.divisor[0] = 1;
  return out;
}

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
  const kinora_link* link() const { return link_->link(); }

  struct At {
    int64_t frames = 0;  // of the video, before this forward
    uint32_t branch = 0;
    const char* name = "blocks.0";
    uint64_t session = 0;
    bool read_only = false;
  };
  // One forward of one attention, of as many frames as q has tokens for.
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const At& at) const {
    const Context<Tensor> context(chain_->context());
    kinora_pass pass{};
    pass.branch = at.branch;
    pass.session = at.session;
    pass.read_only = at.read_only ? 1 : 0;
    chain_->begin(!GradMode::enabled(), pass, at.frames);
    Attention<Tensor> how;
    how.name = at.name;
    const kinora_rope rope = rotation();
    how.rope = &rope;
    const Tensor tokens = q.detach().reshape({1, q.size(1), kHeads * kSize});
    context.sequence(tokens, q.size(1) / kFrame, 2, 2, how.q_seq);
    how.kv_seq = how.q_seq;
    watch().now(fmt::format("attention of its link, {} frames after the first", at.frames));
    return context.attention(q, k, v, how);
  }
  int64_t tokens(uint32_t branch, uint64_t session = 0) const {
    int64_t out = -1;
    require_ok([&] { return api.tokens(self(), session, branch, &out); }, "tokens()");
    return out;
  }
  int64_t bytes(uint64_t session = 0) const {
    int64_t out = -1;
    require_ok([&] { return api.bytes(self(), session, &out); }, "bytes()");
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
  if (!(off <= kMostRounding))
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
      const Cache::At at{.frames = frame, .name = name.c_str()};
      cache.attend(q, drawn(seed + 7, kFrame), drawn(seed + 8, kFrame), at);
      const auto key = seed + 10 * static_cast<uint64_t>(frame) + 100 * i;
      k[i].push_back(drawn(key + 2, kFrame));
      v[i].push_back(drawn(key + 3, kFrame));
      const Tensor made = cache.attend(q, k[i].back(), v[i].back(), at);
      if (cache.tokens(0) < kFrame * (frame + 1))
        throw Skipped{"it evicts tokens with these options; give others with --set"};
      require_attention(made, q, joined(k[i]), joined(v[i]),
                        fmt::format("frame {} to frames 0 to {}", frame, frame));
    }
  const Tensor q = drawn(seed + 4, kFrame);
  require_attention(cache.attend(q, k[0][1], v[0][1], {}), q, k[0][1], v[0][1],
                    "a forward from INDEX 0, which starts over,");
  require_attention(cache.attend(q, k[0][2], v[0][2], {.branch = 1}), q, k[0][2], v[0][2], "another branch");
  return "";
}

void require_tokens(const Cache& cache, uint32_t branch, int64_t expected, const std::string& after,
                    uint64_t session = 0) {
  if (const int64_t found = cache.tokens(branch, session); found != expected)
    throw Error(KINORA_ERROR_FAILED, fmt::format("after {} tokens({}, {}) is {}; {} is expected", after,
                                                 session, branch, found, expected));
}

std::string check_storage(PluginTrial& t) {
  const GradMode off(false);
  const Cache cache(t);
  const int64_t empty = cache.bytes();
  const auto fill = [&](uint32_t branch) {
    for (int64_t frame = 0; frame < 3; ++frame) {
      const Tensor x = drawn(t.subject.seed, kFrame);
      cache.attend(x, x, x, {.frames = frame, .branch = branch});
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
  require_ok([&] { return cache.api.trim(cache.self(), 0, 0, 2 * kFrame); }, "trim()");
  // The last frame's tokens are stored, whatever was evicted.
  require_tokens(cache, 0, stored - kFrame, fmt::format("trim(0, {})", 2 * kFrame));
  require_tokens(cache, 1, stored, "trim() of branch 0");
  require_ok([&] { return cache.api.reset(cache.self(), 0, 1); }, "reset()");
  require_tokens(cache, 1, 0, "reset(1)");
  if (cache.bytes() >= both)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("bytes() is {} before reset() of a branch and {} after; reset() frees its storage", both,
                    cache.bytes()));
  require_ok([&] { return cache.api.reset(cache.self(), 0, KINORA_BRANCH_ALL); }, "reset()");
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
  require_ok([&] { return cache.api.pin(cache.self(), 0, 0, kFrame); }, "pin()");
  int64_t stored = 0;
  double pinned = 0;  // tokens of the first frame that a frame sees
  const auto attend = [&](int64_t frame, uint64_t session = 0) {
    const Tensor x = drawn(t.subject.seed, kFrame);
    const Tensor made = cache.attend(full_like(x, 0.0), x, full_like(x, frame == 0 ? 1.0 : 0.0),
                                     {.frames = frame, .session = session});
    stored = cache.tokens(0, session);
    pinned = numbers(made)[0] * static_cast<double>(stored);
  };
  for (int64_t frame = 0; frame < kFrames; ++frame) {
    attend(frame);
    if (!(std::abs(pinned - kFrame) <= kMostError * kFrame))
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format(
              "frame {} sees {:.3g} of the {} pinned tokens among {}; a pinned token is never evicted", frame,
              pinned, kFrame, stored));
  }
  if (stored == kFrames * kFrame) return "no token is evicted with these options";
  require_ok([&] { return cache.api.unpin(cache.self(), 0, 0, kFrame); }, "unpin()");
  for (int64_t frame = 0; frame <= kFrames; ++frame) attend(frame, 1);  // of which nothing is pinned
  const double others = pinned;
  attend(kFrames);
  if (!(pinned <= others + kMostError * kFrame))
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format(
            "after unpin() the next frame sees {:.3g} of the {} tokens, and {:.3g} of them in a session that "
            "never pinned; what is unpinned is evicted as any other token",
            pinned, kFrame, others));
  return fmt::format("{} of {} tokens are stored", stored, kFrames * kFrame);
}

// Some frames of a video in a session, in two branches; `from` and `video` choose its numbers.
std::vector<double> continued(const Cache& cache, uint64_t session, int64_t from, int64_t to,
                              uint64_t video) {
  std::vector<double> out;
  for (int64_t frame = from; frame < to; ++frame)
    for (uint32_t branch : {0u, 1u}) {
      const uint64_t key = 1000 * video + 10 * static_cast<uint64_t>(frame) + 3 * branch;
      const auto made =
          numbers(cache.attend(drawn(key, kFrame), drawn(key + 1, kFrame), drawn(key + 2, kFrame),
                               {.frames = frame, .branch = branch, .session = session}));
      out.insert(out.end(), made.begin(), made.end());
    }
  return out;
}

// most: of copies, whose numbers are equal and may be stored in another layout; 0: the same bits.
void require_same(const std::vector<double>& found, const std::vector<double>& expected,
                  const std::string& what, double most = 1e-9) {
  if (const double off = relative_error(found, expected); !(off <= most))
    throw Error(KINORA_ERROR_FAILED, fmt::format("{} differs by {:.2g} of its size", what, off));
}

std::string check_sessions(PluginTrial& t) {
  const GradMode off(false);
  const uint64_t seed = t.subject.seed;
  const Cache turns(t), alone(t);
  const std::vector<double> first = continued(alone, 0, 0, 6, seed);
  require_ok([&] { return alone.api.reset(alone.self(), 0, KINORA_BRANCH_ALL); }, "reset()");
  const std::vector<double> second = continued(alone, 0, 0, 6, seed + 1);
  require_tokens(turns, 0, 0, "create()", 5);
  std::vector<double> found[2];
  for (int64_t frame = 0; frame < 6; ++frame)
    for (uint64_t i : {0, 1}) {
      const auto more = continued(turns, 4 + i, frame, frame + 1, seed + i);
      found[i].insert(found[i].end(), more.begin(), more.end());
    }
  require_same(found[0], first, "a video made in turn with another session's", 0);
  require_same(found[1], second, "the other session's video", 0);
  const int64_t stored = turns.tokens(0, 5), bytes = turns.bytes(5);
  require_ok([&] { return turns.api.reset(turns.self(), 4, KINORA_BRANCH_ALL); }, "reset()");
  require_tokens(turns, 0, 0, "reset() of the session", 4);
  require_tokens(turns, 0, stored, "reset() of session 4", 5);
  if (turns.bytes(5) != bytes)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("session 5 has {} bytes after reset() of session 4, and had {}", turns.bytes(5), bytes));
  for (uint32_t branch : {0u, KINORA_BRANCH_ALL})
    require_ok([&] { return turns.api.reset(turns.self(), 99, branch); },
               "reset() of a session that never was");
  return "";
}

// The answer of copy() or save(), which a cache may not have.
void require_moved(int32_t status, const std::string& call) {
  if (status == KINORA_ERROR_UNSUPPORTED) throw Skipped{call + ": " + last_message()};
  require_ok(status, call);
}

std::string check_copies(PluginTrial& t) {
  const GradMode off(false);
  const uint64_t seed = t.subject.seed;
  const Cache cache(t), replay(t);
  continued(cache, 2, 0, 5, seed + 2);  // what the copy replaces
  continued(cache, 1, 0, 3, seed);
  watch().now("copy()");
  require_moved(cache.api.copy(cache.self(), 1, 2), "copy()");
  for (uint64_t session : {1, 2}) {
    continued(replay, session, 0, 3, seed);
    const auto expected = continued(replay, session, 3, 6, seed + session);
    require_same(
        continued(cache, session, 3, 6, seed + session), expected,
        fmt::format("{} of a copied session, which then goes another way than {}, compared with a replay",
                    session == 1 ? "the original" : "the copy", session == 1 ? "its copy" : "the original"));
  }
  return "";
}

// Tensors of a session, copied.
std::map<std::string, Tensor> saved(const Cache& cache, uint64_t session) {
  std::map<std::string, Tensor> out;
  const auto take = [](void* to, const kinora_named* one) {
    return guard([&] {
      (*static_cast<std::map<std::string, Tensor>*>(to))[one->name] =
          op("aten::clone", "", {Tensor::borrow(one->tensor)});
    });
  };
  watch().now("save()");
  require_moved(cache.api.save(cache.self(), session, &out, take), "save()");
  return out;
}

int32_t restore(const Cache& cache, uint64_t session, const std::map<std::string, Tensor>& from) {
  std::vector<kinora_named> in;
  for (const auto& [name, tensor] : from) in.push_back({name.c_str(), tensor.get()});
  watch().now("restore()");
  return cache.api.restore(cache.self(), session, in.data(), in.size());
}

std::string check_saved(PluginTrial& t) {
  const GradMode off(false);
  const uint64_t seed = t.subject.seed;
  const Cache stays(t), leaves(t), other(t);
  for (const Cache* cache : {&stays, &leaves}) continued(*cache, 0, 0, 3, seed);
  auto tensors = saved(leaves, 0);
  require_ok([&] { return leaves.api.reset(leaves.self(), 0, KINORA_BRANCH_ALL); }, "reset()");
  require_ok([&] { return restore(leaves, 0, tensors); }, "restore()");
  require_ok([&] { return restore(other, 3, tensors); }, "restore() in another instance");
  const auto expected = continued(stays, 0, 3, 6, seed);
  require_same(continued(leaves, 0, 3, 6, seed), expected, "a session after save(), reset() and restore()");
  require_same(continued(other, 3, 3, 6, seed), expected, "a session restored in another instance");
  const int64_t stored = other.tokens(0, 3);
  tensors["nobody.unknown/1"] = drawn(seed, kFrame);
  if (const int32_t status = restore(other, 3, tensors); status != KINORA_ERROR_INVALID)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("restore() of a tensor that no save() gave returned {}; return KINORA_ERROR_INVALID ({})",
                    status, KINORA_ERROR_INVALID));
  require_tokens(other, 0, stored, "a restore() that failed", 3);
  return "";
}

std::string check_read_only(PluginTrial& t) {
  const GradMode off(false);
  const uint64_t seed = t.subject.seed;
  const Cache cache(t), plain(t);
  for (int64_t frame = 0; frame < 6; ++frame) {
    const int64_t stored = cache.tokens(0), bytes = cache.bytes();
    const auto look = [&](int64_t at, uint64_t key) {
      return cache.attend(drawn(key, kFrame), drawn(key + 1, kFrame), drawn(key + 2, kFrame),
                          {.frames = at, .read_only = true});
    };
    look(frame, seed + 500);
    look(0, seed + 600);
    const Tensor seen = look(frame, 1000 * seed + 10 * static_cast<uint64_t>(frame));
    require_tokens(cache, 0, stored, "a read-only forward");
    if (cache.bytes() != bytes)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("a read-only forward changes bytes() from {} to {}", bytes, cache.bytes()));
    const auto expected = continued(plain, 0, frame, frame + 1, seed);
    require_same(continued(cache, 0, frame, frame + 1, seed), expected, "a forward after read-only ones");
    const double off_by = relative_error(numbers(seen), {expected.begin(), expected.begin() + seen.numel()});
    if (!(off_by <= kMostError))
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format(
              "a read-only forward differs by {:.2g} of its size from the same one that stores; it sees "
              "the stored tokens before it and its own",
              off_by));
  }
  return "";
}

std::string check_refusal(PluginTrial& t) {
  const Cache cache(t);
  const Tensor x = drawn(t.subject.seed, kFrame), k = x + 0.0;
  check(tensors_api().set_requires_grad(k.get(), 1));
  int32_t status = KINORA_OK;
  try {
    cache.attend(x, k, x, {});
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
      cache.attend(x, x, x, {.frames = frame, .branch = branch});
    };
    for (int64_t frame = 0; frame < 12; ++frame) attend(frame, 0);  // more than a small window has
    for (int64_t frame = 0; frame < 3; ++frame) attend(frame, 1);
    require_ok([&] { return cache.api.trim(cache.self(), 0, 1, 2 * kFrame); }, "trim()");
    require_ok([&] { return cache.api.reset(cache.self(), 0, 1); }, "reset()");
    attend(0, 0);
    const Tensor x = drawn(t.subject.seed, kFrame);
    cache.attend(x, x, x, {.frames = 1, .read_only = true});
    watch().now("copy()");
    if (cache.api.copy(cache.self(), 0, 1) == KINORA_ERROR_UNSUPPORTED) return;
    const auto tensors = saved(cache, 1);
    require_ok([&] { return restore(cache, 2, tensors); }, "restore()");
  });
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  const Cache cache(t);
  require_needs_refused(cache.link(), drawn(t.subject.seed, kFrame));
  return "";
}

constexpr Check kChecks[] = {
    {"keys", "cache", "each frame sees the keys and values of all before it, by attention and branch", false,
     nullptr, check_keys},
    {"storage", "cache", "tokens() and bytes() count each branch, and trim() and reset() give back", false,
     nullptr, check_storage},
    {"pinned", "cache", "pinned tokens are never evicted, until unpin()", false, nullptr, check_pinned},
    {"sessions", "cache", "sessions that run in turn give the bits of each alone", false, nullptr,
     check_sessions},
    {"copies", "cache", "copy() of a session and its original continue as two replays do", false, nullptr,
     check_copies},
    {"saved", "cache", "a session continues after save(), reset() and restore() as if it had stayed", false,
     nullptr, check_saved},
    {"cache-read-only", "cache", "read-only forwards see what storing ones see and leave no trace", false,
     nullptr, check_read_only},
    {"cache-needs", "cache", "its link refuses what needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"cache-gradients", "cache", "keys that require a gradient are refused", false, nullptr, check_refusal},
    {"cache-leaks", "cache", "every handle to a tensor is released, at the latest by destroy()", false,
     nullptr, check_handles}};

}  // namespace
}  // namespace cache_checks_of

std::span<const Check> cache_checks() { return cache_checks_of::kChecks; }

}  // namespace kinora
