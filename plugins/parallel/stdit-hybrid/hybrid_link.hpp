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
#pragma once
#include <list>
#include <map>

#include "kinora/table_ring.hpp"
#include "kinora/token_split.hpp"
#include "plugins/parallel/stdit-hybrid/switches.hpp"

namespace kinora {

enum class StLayout { hybrid, cp, ulysses };

class HybridLink final : public TokenSplit {
 public:
  // part: this rank's part of the tensor group's `parts`, which split the tokens again.
  HybridLink(Group<at::Tensor> group, int64_t part, int64_t parts, StLayout layout);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  // The end of a forward, which shows whether the model requests the other split.
  at::Tensor leave(const at::Tensor& x, kinora_seq seq) override;
  at::Tensor reshard(const at::Tensor& x, kinora_seq seq, Over over, kinora_seq& to) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 protected:
  at::Tensor order(const at::Tensor& table) const override;
  int64_t padding_of(int64_t tokens) const override;

 private:
  // The splits of one table of the root, which keeps one tensor for each geometry.
  struct Known {
    at::Tensor table, by_places;  // by_places: of all ranks, [1 or B, P L, 8]
    Switches switches;
  };
  const Known& known(const at::Tensor& table);
  // The two sequence numbers of one geometry.
  struct Way {
    kinora_seq frames = 0, places = 0;
    Switches switches;
  };
  bool is_local(const kinora_attention& how) const;

  TableRing ring_;
  int64_t part_;
  StLayout layout_;
  bool resharded_ = false, told_ = false;
  std::list<Known> known_;  // latest first
  std::map<kinora_seq, Way> ways_;
};

}  // namespace kinora
