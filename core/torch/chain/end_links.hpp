// The host's two links, one at each end of the chain (chain.hpp).
#pragma once
#include <deque>
#include <list>
#include <optional>
#include <set>

#include "core/torch/attention/attention.hpp"
#include "core/torch/attention/visibility.hpp"
#include "core/torch/tensors/parameter.hpp"
#include "kinora/abi/sample_keys.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {

// Keys of the random numbers of tokens, int64: the global number of each token's sample, [B, 1 or tokens],
// and the token's place in the sample, [1 or B, tokens], -1 for padding.
struct TokenKeys {
  at::Tensor sample, place;
};

// Which samples the forwards compute whose backward may still come.
class SampleKeys {
 public:
  SampleKeys();
  SampleKeys(const SampleKeys&) = delete;
  SampleKeys& operator=(const SampleKeys&) = delete;
  // numbers: of the pass' samples; empty: first_sample, first_sample + 1 ...
  void begin(const kinora_pass& pass, std::vector<int64_t> numbers);
  void end() { batches_.clear(); }
  // The sizes of the samples of a packed row, in tokens; of one sample: rows hold one each.
  void set_row(const kinora_pass& pass, const std::vector<VideoSize>& samples);
  int64_t number(const kinora_pass& pass, int64_t i) const;
  // Keys of the tokens of a table, in B rows.
  TokenKeys of_tokens(const kinora_pass& pass, const at::Tensor& table, int64_t B) const;
  // Keys of the rows of a tensor [B, R, D] outside of a sequence, such as conditions or text. A packed row has
  // [samples, R, D], or [1, R, D] with a row for each frame or token, or with equally many for each sample. All
  // frames of a sample have the key of its only row in a batch. Throws Error(KINORA_ERROR_UNSUPPORTED) for other
  // numbers of rows.
  TokenKeys of_shared(const kinora_pass& pass, int64_t B, int64_t R, const std::string& what) const;
  const kinora_sample_keys* api() const { return &api_; }

 private:
  struct Batch {
    std::vector<int64_t> numbers;
    std::vector<int64_t> tokens, frames;  // of a packed row: the first of each sample, then all
  };
  const Batch* of(const kinora_pass& pass) const;
  int64_t samples(const kinora_pass& pass) const;  // in a packed row; 0: it is not packed
  at::Tensor numbers(const kinora_pass& pass, const std::vector<int64_t>& of) const;
  std::map<int64_t, Batch> batches_;  // by first_sample
  kinora_sample_keys api_{};
};

// The sequences of a run by number. A table keeps its number however often a forward requests it. At most 256
// are kept, more than a live graph needs; the least recently used is dropped first.
class Sequences {
 public:
  kinora_seq number_of(const kinora_seq_spec& spec, const at::Tensor& table);
  // Throws Error(KINORA_ERROR_INVALID) for a number that was never issued, or was dropped.
  const at::Tensor& table(kinora_seq seq);

 private:
  struct NumberedTable {
    kinora_seq number;
    int64_t frames, rows, cols;
    at::Tensor table;
  };
  std::list<NumberedTable> known_;  // latest first
  kinora_seq last_ = 0;
};

// At the base end: plain mathematics, and owner of the parameters' storage.
class BaseLink final : public kinora::Link<at::Tensor> {
 public:
  using Tensor = at::Tensor;
  // seed: of the parameters' initial values; none: they are zeros.
  BaseLink(const Frames& frames, const SampleKeys& keys, at::Device device, at::ScalarType dtype,
           std::optional<uint64_t> seed, bool may_stop);

  kinora_param parameter(const kinora_param_spec& s) override;
  Tensor value(kinora_param p) override;
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;
  Tensor all_reduce(const Tensor& x) override { return x; }
  Tensors block(const kinora_block& b, const Tensors& in) override;
  Tensor sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  Tensor gather(const Tensor& x, kinora_seq) override { return x; }
  Tensor table(kinora_seq seq, Place) override { return sequences_.table(seq); }
  Tensor reshard(const Tensor& x, kinora_seq seq, Over, kinora_seq& to) override;
  Tensor noise(const Tensor& like, kinora_seq seq, const char* key) override;
  Tensor lookup(const Tensor& ids, kinora_param p, kinora_seq) override;
  Tensor share(const std::vector<double>& costs) override;
  Tensor place(const Tensor& made, const std::vector<int64_t>& index, const std::vector<int64_t>& rows,
               kinora_seq seq) override;

  // The next stages of a run: links take parameters over (values are drawn anew each time), then the base
  // keeps the rest.
  void let_links_take() { stage_ = Stage::taking; }
  void keep_the_rest(const std::set<kinora_param>& taken);
  // Marks a block whose parameters this rank does not hold.
  void skip_block(int64_t block);
  bool holds_block(int64_t block) const { return skipped_.count(block) == 0; }
  void forget_plans() { plans_.clear(); }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& parameter_of(kinora_param p) const;

 private:
  enum class Stage { declaring, taking, running } stage_ = Stage::declaring;
  Tensor drawn(const Parameter& p) const;

  const Frames& frames_;
  const SampleKeys& keys_;
  at::Device device_;
  at::ScalarType dtype_;
  std::optional<uint64_t> seed_;
  bool may_stop_;
  std::vector<Parameter> parameters_;  // by kinora_param - 1
  std::set<std::string> names_;
  std::set<int64_t> skipped_;   // blocks of other ranks
  std::vector<Tensor> values_;  // undefined where a link took the parameter over
  Sequences sequences_;
  VisiblePlans plans_;
  gpu::Fp8Attention fp8_;
};

// At the model's end: numbers the tokens, adds the tables of the given sequences to attention, and divides items
// in front of a sequence over the ranks that share it.
class RootLink final : public kinora::Link<at::Tensor> {
 public:
  // Tokens are padded to a multiple of token_multiple; gather() removes the padding.
  RootLink(const Frames& frames, SampleKeys& keys, at::Device device, int64_t token_multiple);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor gather(const at::Tensor& x, kinora_seq seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;
  // On the meta device tables still have their values, for the links; a model gets a meta tensor like its own.
  at::Tensor table(kinora_seq seq, Place place) override;
  at::Tensor share(const std::vector<double>& costs) override;
  at::Tensor place(const at::Tensor& made, const std::vector<int64_t>& index,
                   const std::vector<int64_t>& rows, kinora_seq seq) override;
  void declared() override;
  // A new forward has shared nothing yet.
  void begin(const kinora_pass& pass) override {
    std::erase_if(owners_, [&](const auto& one) { return one.first.first == pass.first_sample; });
  }
  // KINORA_INTERFACE_SAMPLE_KEYS.
  const void* get_interface(const char* id, uint32_t minor) override;
  // To be called when the rule changes: tables are built anew.
  void forget_tables() { tables_.clear(); }

 private:
  struct Made {
    std::vector<VideoSize> samples;
    at::Tensor table;
  };
  // One tensor per geometry, so that links and the base recognise tables by their address.
  const at::Tensor& table_of(const std::vector<VideoSize>& samples, int64_t padding);

  const Frames& frames_;
  SampleKeys& keys_;
  at::Device device_;
  int64_t token_multiple_;
  std::deque<Made> tables_;
  std::map<kinora_seq, int64_t> lengths_;  // without padding
  Group<at::Tensor> ranks_;                // that share a sequence; without mesh: none
  std::map<std::pair<int64_t, size_t>, std::vector<int64_t>> owners_;  // by first sample and number of items
  std::map<kinora_seq, at::Tensor> held_;  // the INDEX of all ranks' tokens, int64 [ranks, n]
};

}  // namespace kinora::core
