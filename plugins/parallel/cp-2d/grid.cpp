// Context parallelism in two dimensions (LongVILA's 2D attention, Chen et al. 2024, arXiv 2408.10188; USP,
// Fang and Zhao 2024, arXiv 2405.07719): neighbours inside a node exchange heads for tokens, and the keys of
// a rank's heads travel around a ring across nodes. For the bytes see head_exchange.hpp and
// ring_attention.hpp, with `ulysses` and size / ulysses ranks.
#include <optional>
#include <set>

#include "kernels/torch/attention_block.hpp"
#include "kinora/head_exchange.hpp"
#include "kinora/plugin.hpp"
#include "kinora/ring_split.hpp"

namespace kinora {

class GridLink final : public RingSplit {
 public:
  GridLink(const Mesh<at::Tensor>& mesh, const std::string& cut, const Options& options)
      : RingSplit("cp-2d", mesh.group("cp"), mesh.group(("cp%" + cut).c_str()), mesh.group("tp").size(),
                  options),
        neighbours_(mesh.group(("cp/" + cut).c_str())) {
    skip_inherited<GridLink>();
  }

  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    if (passes(how)) return next.attention(q, k, v, how);
    const HeadExchange by(neighbours_, q.size(2), k.size(2));
    if (const auto told = by.told(); !told.empty() && told_.insert(told).second)
      log(Log::info, "cp-2d: " + told);
    return attend_by_heads(by, q, k, v, how, layout(how.q_seq).table, layout(how.kv_seq).table,
                           [this](const at::Tensor& q_here, const at::Tensor& k_here,
                                  const at::Tensor& v_here, const kinora_attention& of_all) {
                             return ring_.attend<AttentionKernel>(*this, q_here, k_here, v_here, of_all);
                           });
  }

 private:
  Group<at::Tensor> neighbours_;
  std::set<std::string> told_;
};

class Grid final : public Strategy<at::Tensor> {
 public:
  struct Options : RingSplit::Options {
    int64_t size = 0, ulysses = 2;
  };
  static void describe(Describe<Options>& d) {
    d.name("cp-2d").help(
        "context parallelism in two dimensions: neighbours exchange heads (cp-ulysses), and their groups "
        "exchange keys in a ring (cp-ring)");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a sequence; 0: all remaining ranks");
    d.option("ulysses", &Options::ulysses)
        .range(1, 65536)
        .unit("ranks")
        .help("number of neighbours that exchange heads, a divisor of size; best the ranks of a node");
    RingSplit::describe(d);
  }
  Grid(const Options& o, const Mesh<at::Tensor>& mesh) {
    const int64_t size = mesh.group("cp").size();
    if (size == 1) return;
    if (size % o.ulysses) {
      int64_t nearest = std::min(o.ulysses, size);
      while (size % nearest) --nearest;
      throw Error(KINORA_ERROR_INVALID, "cp-2d: ulysses = " + std::to_string(o.ulysses) +
                                            " does not divide the " + std::to_string(size) +
                                            " ranks of a sequence; use ulysses = " + std::to_string(nearest));
    }
    link_.emplace(mesh, std::to_string(o.ulysses), o);
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<GridLink> link_;
};
KINORA_COMPONENT(Grid)
KINORA_PLUGIN(Grid)

}  // namespace kinora
