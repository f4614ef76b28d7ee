// Context parallelism of spatial-temporal transformers (NeMo, arXiv 2503.12964, section 4.6): the tokens are
// split by frames for spatial attention and by positions for temporal attention, which are then local. For full
// attention, keys and values travel around the ring (ring_attention.hpp) in the current split. model/stdit requests a
// split with reshard(): switching and returning takes exactly two all-to-alls per layer.
//
// Bytes that a rank sends in a forward of N layers, for elements of e bytes; A attentions per layer (3; 2
// without full attention), B batch, L tokens per rank with padding (switches.hpp), D width, C channels of an
// output token, as many heads of keys as of queries, and heads that divide; S = B L D e:
//   hybrid   (P - 1) / P N 2 S + (P - 1) N (A - 2) 2 S   all-to-alls; keys of full attention
//   cp       (P - 1) N A 2 S                             keys of every attention
//   ulysses  (P - 1) / P N A 4 S                         all-to-alls of q, k, v and of the result
// and (P - 1) B L C e of the output. A backward sends the same, except the output, plus the gradients
// of the ring's keys: P / (P - 1) times as many numbers, of 8 bytes for float64, else 4.
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/torch/attention_block.hpp"
#include "kinora/abi/attends.h"
#include "kinora/head_exchange.hpp"
#include "kinora/plugin.hpp"
#include "kinora/ring_split.hpp"
#include "kinora/token_split.hpp"
#include "plugins/parallel/stdit-hybrid/switches.hpp"

namespace kinora {
namespace {

enum class StLayout { hybrid, cp, ulysses };

class HybridLink final : public TokenSplit {
 public:
  // part: this rank's part of the tensor group's `parts`, which split the tokens again.
  HybridLink(Group<at::Tensor> group, int64_t part, int64_t parts, StLayout layout);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  // The end of a forward, which shows whether the model requests the other split.
  at::Tensor gather(const at::Tensor& x, kinora_seq seq) override;
  at::Tensor reshard(const at::Tensor& x, kinora_seq seq, Over over, kinora_seq& to) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;
  // KINORA_INTERFACE_ATTENDS, in the layouts where keys may travel around a ring.
  const void* get_interface(const char* id, uint32_t minor) override;

 protected:
  at::Tensor order(const at::Tensor& table) const override;
  int64_t padding_of(int64_t tokens) const override;

 private:
  // The splits of one table of the root, which keeps one tensor for each geometry.
  struct CachedSplits {
    at::Tensor table, by_places;  // by_places: of all ranks, [1 or B, P L, 8]
    Switches switches;
  };
  const CachedSplits& known(const at::Tensor& table);
  // The two sequence numbers of one geometry.
  struct SequencePair {
    kinora_seq frames = 0, places = 0;
    Switches switches;
  };
  bool is_local(const kinora_attention& how) const;

  TableRing ring_;
  int64_t part_;
  StLayout layout_;
  bool resharded_ = false, told_ = false;
  std::list<CachedSplits> known_;  // latest first
  std::map<kinora_seq, SequencePair> ways_;
};

HybridLink::HybridLink(Group<at::Tensor> group, int64_t part, int64_t parts, StLayout layout)
    : TokenSplit(group, parts),
      ring_("stdit-hybrid", "layout = 'ulysses'", group),
      part_(part),
      layout_(layout) {
  skip_inherited<HybridLink>();
}

const HybridLink::CachedSplits& HybridLink::known(const at::Tensor& table) {
  for (auto it = known_.begin(); it != known_.end(); ++it)
    if (it->table.data_ptr() == table.data_ptr() && it->table.sizes() == table.sizes()) {
      known_.splice(known_.begin(), known_, it);
      return known_.front();
    }
  constexpr size_t most = 64;  // as many geometries as the root caches
  if (known_.size() == most) known_.pop_back();
  CachedSplits made{table, {}, make_switches(table, group_.rank(), group_.size(), part_, multiple_)};
  made.by_places = padded_table(table, made.switches.padding).index_select(1, made.switches.by_places);
  known_.push_front(std::move(made));
  return known_.front();
}

// The split by positions is a separate sequence, announced to the links below like any other.
at::Tensor HybridLink::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  if (layout_ != StLayout::hybrid) return TokenSplit::sequence(x, spec, seq);
  const CachedSplits& k = known(borrow<at::Tensor>(spec.table));
  const at::Tensor out = TokenSplit::sequence(x, spec, seq), mine = of_rank(k.by_places, 1);
  // -1: if a rank holds the same tokens in both splits, this distinguishes them.
  kinora_seq_spec by_places = spec;
  by_places.frames = -1;
  by_places.table = handle(mine);
  SequencePair way{seq, 0, k.switches};
  next.sequence(at::empty({x.size(0), mine.size(1), 0}, x.options()), by_places, way.places);
  keep(way.places, {k.by_places, k.switches.by_places.argsort(), spec.frames, spec.rows, spec.cols});
  constexpr size_t most = 256;
  if (ways_.size() >= most) ways_.erase(ways_.begin());
  ways_[way.frames] = ways_[way.places] = way;
  return out;
}

at::Tensor HybridLink::order(const at::Tensor& table) const {
  return layout_ == StLayout::hybrid ? known_.front().switches.by_frames : TokenSplit::order(table);
}

int64_t HybridLink::padding_of(int64_t tokens) const {
  return layout_ == StLayout::hybrid ? known_.front().switches.padding : TokenSplit::padding_of(tokens);
}

at::Tensor HybridLink::gather(const at::Tensor& x, kinora_seq seq) {
  if (!resharded_ && group_.rank() == 0 && !std::exchange(told_, true))
    log(Log::warn,
        "stdit-hybrid: the model has no attention over only space or time, so nothing is gained: cp-ring and "
        "cp-ulysses do as well");
  return TokenSplit::gather(x, seq);
}

at::Tensor HybridLink::reshard(const at::Tensor& x, kinora_seq seq, Over over, kinora_seq& to) {
  resharded_ = true;
  to = seq;
  const auto found = ways_.find(seq);
  if (found == ways_.end()) return x;
  const SequencePair& way = found->second;
  to = over == Over::time ? way.places : way.frames;
  if (to == seq) return x;
  const bool there = to == way.places;
  const Switches& s = way.switches;
  const at::Tensor leave = there ? s.leave_frames : s.leave_places,
                   enter = there ? s.enter_places : s.enter_frames,
                   leave_back = there ? s.leave_places : s.leave_frames,
                   enter_back = there ? s.enter_frames : s.enter_places;
  if (x.size(2) == 0) return x;  // only the layout is requested
  const auto carry = [](const Group<at::Tensor>& g, const at::Tensor& t, const at::Tensor& first,
                        const at::Tensor& last) {
    return g.exchange(t.index_select(1, first), 1, 1).index_select(1, last);
  };
  return detail::transferred(
      group_, x, [=](const Group<at::Tensor>& g, const at::Tensor& t) { return carry(g, t, leave, enter); },
      [=](const Group<at::Tensor>& g, const at::Tensor& t) { return carry(g, t, leave_back, enter_back); });
}

const void* HybridLink::get_interface(const char* id, uint32_t) {
  static constexpr kinora_attends table{sizeof table, 0, "stdit-hybrid"};
  return layout_ != StLayout::ulysses && std::string_view(id) == KINORA_INTERFACE_ATTENDS ? &table : nullptr;
}

bool HybridLink::is_local(const kinora_attention& how) const {
  if (!how.kv_seq) return true;
  const auto found = ways_.find(how.kv_seq);
  if (found == ways_.end() || how.q_seq != how.kv_seq) return false;
  return how.kv_seq == found->second.places ? how.over == KINORA_OVER_TIME : how.over == KINORA_OVER_SPACE;
}

at::Tensor HybridLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const kinora_attention& how) {
  if (is_local(how)) return next.attention(q, k, v, how);
  if (!how.q_seq)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "stdit-hybrid: attention '" + std::string(how.name ? how.name : "") +
                    "' has shared queries over split keys; give the queries a sequence");
  const at::Tensor q_table = layout(how.q_seq).table, k_table = layout(how.kv_seq).table;
  if (layout_ == StLayout::ulysses)
    return attend_by_heads(
        HeadExchange(group_, q.size(2), k.size(2)), q, k, v, how, q_table, k_table,
        [this](const at::Tensor& q_all, const at::Tensor& k_all, const at::Tensor& v_all,
               const kinora_attention& of_all) { return next.attention(q_all, k_all, v_all, of_all); });
  kinora_attention of_all = how;
  of_all.q_table = handle(q_table);
  of_all.k_table = handle(k_table);
  return ring_.attend<AttentionKernel>(*this, q, k, v, of_all);
}

}  // namespace

class StDitHybrid final : public Strategy<at::Tensor> {
 public:
  struct Options {
    int64_t size = 0;
    std::string layout = "hybrid";
  };
  static void describe(Describe<Options>& d) {
    d.name("stdit-hybrid")
        .help(
            "spatial-temporal models: frames are split for spatial attention, positions for temporal "
            "attention, and keys travel around a ring for full attention; two all-to-alls per layer");
    d.option("size", &Options::size)
        .range(0, 4096)
        .unit("ranks")
        .help("number of ranks that share a sequence; 0: all remaining ranks");
    d.option("layout", &Options::layout)
        .choices({"hybrid", "cp", "ulysses"})
        .help(
            "hybrid: as described; cp: a ring of keys for every attention; ulysses: exchanged heads for "
            "every "
            "attention");
  }
  StDitHybrid(const Options& o, const Mesh<at::Tensor>& mesh) {
    const auto cp = mesh.group("cp"), tp = mesh.group("tp");
    const auto layout = o.layout == "hybrid" ? StLayout::hybrid
                        : o.layout == "cp"   ? StLayout::cp
                                             : StLayout::ulysses;
    if (cp.size() > 1) link_ = std::make_unique<HybridLink>(cp, tp.rank(), tp.size(), layout);
  }
  const char* axis() const override { return "cp"; }
  const kinora_link* link() override { return link_ ? link_->get() : nullptr; }

 private:
  std::unique_ptr<HybridLink> link_;  // none on one rank
};
KINORA_COMPONENT(StDitHybrid)
KINORA_PLUGIN(StDitHybrid)

}  // namespace kinora
