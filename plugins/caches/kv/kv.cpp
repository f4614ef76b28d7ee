// The cache of keys and values as a component.
#include "kinora/cache.hpp"
#include "kinora/plugin.hpp"
#include "plugins/caches/kv/kv_cache_link.hpp"

namespace kinora {

class Kv final : public Cache {
 public:
  struct Options {
    int64_t window = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("kv").help(
        "keys and values as the attentions receive them: all, or a sliding window and pinned tokens");
    d.option("window", &Options::window)
        .range(0, 1e9)
        .unit("tokens")
        .help(
            "number of latest tokens that attention sees, its own forward's included, in addition to the "
            "pinned ones; older ones are evicted, which bounds memory; 0: all tokens");
  }
  Kv(const Options& o, int64_t tokens) : link_(o.window, tokens) {}

  const kinora_link* link() override { return link_.get(); }
  int64_t tokens(uint32_t branch) override { return link_.tokens(branch); }
  int64_t bytes() override { return link_.bytes(); }
  void reset(uint32_t branch) override { link_.reset(branch); }
  void trim(uint32_t branch, int64_t tokens) override { link_.trim(branch, tokens); }
  void pin(int64_t first, int64_t count) override { link_.pin(first, count); }

 private:
  KvCacheLink link_;
};
KINORA_COMPONENT(Kv)
KINORA_PLUGIN(Kv)

}  // namespace kinora
