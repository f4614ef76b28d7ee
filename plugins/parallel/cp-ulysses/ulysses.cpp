// DeepSpeed-Ulysses (Jacobs et al. 2023, arXiv 2309.14509): tokens are split over the ranks, and in each
// attention heads are, by an all-to-all of q, k and v together and one of the result (for the bytes see
// head_exchange.hpp). Visibility follows from the tables of all ranks' tokens, so every rule and every `over`
// works, and kernels and caches below see whole sequences. Shared keys (text) are not exchanged.
//
// With `wire` the all-to-alls of values carry fewer bytes (kernels/wire/wire.hpp), with `gradient_wire` those of
// their gradients. A part is what one rank sends to another: rows are tokens, columns the heads of q, k and v,
// or of the result.
#include <set>

#include "kernels/wire/wire.hpp"
#include "kinora/head_exchange.hpp"
#include "kinora/plugin.hpp"
#include "kinora/token_split.hpp"

namespace kinora {

class UlyssesLink final : public TokenSplit {
 public:
  UlyssesLink(const Mesh<at::Tensor>& mesh, wire::Format values, wire::Format gradients)
      : TokenSplit(mesh.group("cp"), mesh.group("tp").size()), values_(values), gradients_(gradients) {
    skip_inherited<UlyssesLink>();
  }

  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    if (!how.kv_seq) return next.attention(q, k, v, how);
    if (!how.q_seq)
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  "cp-ulysses: attention '" + std::string(how.name) +
                      "' has shared queries over split keys; give the queries a sequence");
    wire::Meter first;
    const HeadExchange by(group_, q.size(2), k.size(2), exchange(told_wire_ ? nullptr : &first));
    if (const auto told = by.told(); !told.empty() && told_.insert(told).second)
      log(Log::info, "cp-ulysses: " + told);
    const at::Tensor out = attend_by_heads(
        by, q, k, v, how, layout(how.q_seq).table, layout(how.kv_seq).table,
        [this](const at::Tensor& q_all, const at::Tensor& k_all, const at::Tensor& v_all,
               const kinora_attention& of_all) { return next.attention(q_all, k_all, v_all, of_all); });
    if (const auto told = first.told(); !told.empty() && group_.rank() == 0)
      log(Log::info, "cp-ulysses: all-to-alls of '" + std::string(how.name) + "' in " +
                         wire::format_names()[static_cast<size_t>(values_)] + ": " + told);
    told_wire_ = true;
    return out;
  }

 private:
  HeadExchange::Exchange exchange(wire::Meter* meter) const {
    if (values_ == wire::Format::same && gradients_ == wire::Format::same) return {};
    return [there = values_, back = gradients_, meter](const Group<at::Tensor>& group, const at::Tensor& x) {
      return wire::exchanged(group, x, there, back, "cp-ulysses", meter);
    };
  }

  wire::Format values_, gradients_;
  std::set<std::string> told_;
  bool told_wire_ = false;
};

class Ulysses final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
    std::string wire = "auto", gradient_wire = "auto";
  };
  static void describe(Describe<Options>& d) {
    d.name("cp-ulysses")
        .help(
            "context parallelism by all-to-alls: each rank has some tokens of a sequence, and some heads in "
            "attention; any number of heads (too few heads of keys are copied, and heads of zeros are added "
            "if the number does not divide)");
    d.option("size", &Options::size)
        .range(0, 65536)
        .unit("ranks")
        .help("number of ranks that share a sequence; 0: all remaining ranks");
    d.option("wire", &Options::wire)
        .choices(wire::format_names())
        .help(
            "dtype of queries, keys, values and results between ranks; auto: that of the activations. fp8 "
            "takes 1.03 bytes a number, nvfp4 0.56, with an error that the log states");
    d.option("gradient_wire", &Options::gradient_wire)
        .choices(wire::format_names())
        .help("dtype of their gradients between ranks; auto: that of the activations");
  }
  Ulysses(const Options& o, const Mesh<at::Tensor>& mesh) {
    if (mesh.group("cp").size() > 1)
      link_.emplace(mesh, wire::format_of(o.wire), wire::format_of(o.gradient_wire));
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::optional<UlyssesLink> link_;
};
KINORA_COMPONENT(Ulysses)
KINORA_PLUGIN(Ulysses)

}  // namespace kinora
