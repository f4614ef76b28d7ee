// The cache of keys and values as components, which differ in how keys and values are stored.
#include "kinora/cache.hpp"
#include "kinora/plugin.hpp"
#include "plugins/caches/kv/kv_cache_link.hpp"

namespace kinora {
namespace {

template <class Options>
void describe_tokens(Describe<Options>& d) {
  d.option("window", &Options::window)
      .range(0, 1e9)
      .unit("tokens")
      .help(
          "number of latest tokens that attention sees, its own forward's included, in addition to the "
          "pinned ones; older ones are evicted, which bounds memory; 0: all tokens");
  d.option("capacity", &Options::capacity)
      .range(0, 1e9)
      .unit("latent frames")
      .help(
          "number of latent frames that attention sees, with the forward's own, the pinned ones and the "
          "sink; older ones are evicted; 0: all, or those of the window that the model was trained with");
  d.option("sink", &Options::sink)
      .range(0, 1e9)
      .unit("latent frames")
      .help("number of first latent frames that are never evicted; capacity includes them");
  d.option("positions", &Options::positions)
      .choices({"absolute", "relative"})
      .help(
          "positions of keys: the video's, or consecutive ones from the oldest stored token on, as if what "
          "was "
          "evicted had not been, so that pinned tokens stay near however long the video is; relative ones "
          "need a "
          "model that describes its rotary positions");
}

template <class Options>
void describe_smooth(Describe<Options>& d) {
  d.option("smooth", &Options::smooth)
      .choices({"none", "chunk", "longlive"})
      .help(
          "mean that keys lose before they are rounded. chunk: that over the tokens of a forward, for each "
          "head and "
          "channel, which is stored in bfloat16 and added back; longlive: as LongLive 2.0, no stored key "
          "loses "
          "one, and a forward sees its own keys and values unrounded, the keys minus their mean over a "
          "head's channels");
}

}  // namespace

class KvBase : public Cache {
 public:
  KvBase(const KvOptions& o, int64_t tokens) : link_(o, tokens) {}

  const kinora_link* link() override { return link_.get(); }
  int64_t tokens(uint64_t session, uint32_t branch) override { return link_.tokens(session, branch); }
  int64_t bytes(uint64_t session) override { return link_.bytes(session); }
  void reset(uint64_t session, uint32_t branch) override { link_.reset(session, branch); }
  void trim(uint64_t session, uint32_t branch, int64_t tokens) override {
    link_.trim(session, branch, tokens);
  }
  void pin(uint64_t session, int64_t first, int64_t count) override { link_.pin(session, first, count); }
  void unpin(uint64_t session, int64_t first, int64_t count) override { link_.unpin(session, first, count); }
  void copy(uint64_t from, uint64_t to) override { link_.copy(from, to); }
  Saved save(uint64_t session) override { return link_.save(session); }
  void restore(uint64_t session, const Saved& saved) override { link_.restore(session, saved); }

 private:
  KvCacheLink link_;
};

class Kv final : public KvBase {
 public:
  using Options = KvOptions;
  using KvBase::KvBase;
  static void describe(Describe<Options>& d) {
    d.name("kv").help(
        "keys and values as the attentions receive them: all, or a sliding window and pinned tokens");
    describe_tokens(d);
    d.option("store", &Options::store)
        .choices({"as given", "fp8", "nvfp4"})
        .help(
            "keys and values in the attentions' dtype; in E4M3 with a float32 scale for each token and head; "
            "or in "
            "E2M1 with an E4M3 scale for 16 channels and a float32 one for each token and head");
    describe_smooth(d);
  }
};
KINORA_COMPONENT(Kv)

class KvFp8 final : public KvBase {
 public:
  struct Options : KvOptions {
    Options() { store = "fp8", smooth = "chunk"; }
  };
  using KvBase::KvBase;
  static void describe(Describe<Options>& d) {
    d.name("kv-fp8").help("cache/kv that stores E4M3 and the mean of the keys of each chunk");
    describe_tokens(d);
    describe_smooth(d);
  }
};
KINORA_COMPONENT(KvFp8)

class KvNvfp4 final : public KvBase {
 public:
  struct Options : KvOptions {
    Options() { store = "nvfp4", smooth = "chunk"; }
  };
  using KvBase::KvBase;
  static void describe(Describe<Options>& d) {
    d.name("kv-nvfp4").help("cache/kv that stores NVFP4 and the mean of the keys of each chunk");
    describe_tokens(d);
    describe_smooth(d);
  }
};
KINORA_COMPONENT(KvNvfp4)
KINORA_PLUGIN(Kv, KvFp8, KvNvfp4)

}  // namespace kinora
