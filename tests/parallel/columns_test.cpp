// A host of a later minor appends columns to the tables of tokens: they go with their tokens through every split, and
// change no result.
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/link.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/rank_strategies.hpp"

namespace kinora::test {
namespace columns {

using at::Tensor;

constexpr int64_t kMore = 2, kFrames = 4, kRows = 1, kCols = 5, kWidth = 4;

// The later host's columns of these tokens: 7 INDEX + 3 and -INDEX, and 0 in padding.
Tensor more_of(const Tensor& table) {
  const Tensor index = table.select(2, KINORA_TOKEN_INDEX);
  return at::stack({7 * index + 3, -index}, 2).masked_fill(index.lt(0).unsqueeze(2), 0);
}

// Widens the table right below the link that makes it, once `is_on`.
class LaterHost final : public Link<Tensor> {
 public:
  LaterHost() : Link(KINORA_LEVEL_ROOT + 1) { skip_inherited<LaterHost>(); }
  Tensor sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    if (!is_on) return next.sequence(x, spec, seq);
    const Tensor table = borrow<Tensor>(spec.table), wide = at::cat({table, more_of(table)}, 2);
    kinora_seq_spec wider = spec;
    wider.table = handle(wide);
    return next.sequence(x, wider, seq);
  }
  bool is_on = false;
};

struct Forward {
  std::vector<Tensor> tables;   // of STREAM, of INNER, and of STREAM after reshard() over time
  std::vector<Tensor> results;  // of sequence(), attention() of tokens, reshard(), noise() and gather()
};

// heads: of this rank at INNER.
Forward forward(const Context<Tensor>& c, core::Chain& chain, int64_t heads) {
  chain.begin({.struct_size = sizeof(kinora_pass), .no_grad = 1, .seed = 3});
  kinora_seq seq = 0, over_time = 0;
  const Tensor all = at::arange(1, 1 + kFrames * kRows * kCols * kWidth, at::kDouble).sin();
  const Tensor x = c.sequence(all.view({1, -1, kWidth}), kFrames, kRows, kCols, seq);
  const Tensor inner = c.table(seq, Place::inner), index = inner.select(2, KINORA_TOKEN_INDEX);
  const Tensor phases =
      at::outer(index[0].to(at::kDouble) + 1, at::arange(1, 1 + heads * kWidth, at::kDouble));
  const Tensor q = phases.sin().view({1, -1, heads, kWidth});
  const Attention<Tensor> how{"self", 0, seq, seq, 0.5};
  const Tensor attended = c.attention(q, q.cos(), (3 * q).sin(), how);
  const Tensor tokens = index[0].ge(0).nonzero().flatten();
  const Tensor resharded = c.reshard(x, seq, Over::time, over_time);
  return {{c.table(seq, Place::stream), inner, c.table(over_time, Place::stream)},
          {x, attended.index_select(1, tokens), resharded, c.noise(x, seq, "key"), c.gather(x, seq)}};
}

void expect_carried(const Context<Tensor>& c, core::Chain& chain, LaterHost& host, int64_t heads,
                    const std::string& where) {
  const Forward narrow = forward(c, chain, heads);
  host.is_on = true;
  const Forward wide = forward(c, chain, heads);
  for (size_t i = 0; i < wide.tables.size(); ++i) {
    const Tensor& table = wide.tables[i];
    ASSERT_EQ(table.size(2), KINORA_TOKEN_COLUMNS + kMore) << where << ", table " << i;
    EXPECT_TRUE(table.narrow(2, 0, KINORA_TOKEN_COLUMNS).equal(narrow.tables[i])) << where << ", table " << i;
    EXPECT_TRUE(table.narrow(2, KINORA_TOKEN_COLUMNS, kMore).equal(more_of(table)))
        << where << ", table " << i << ": " << table;
  }
  for (size_t i = 0; i < wide.results.size(); ++i)
    EXPECT_TRUE(at::allclose(wide.results[i], narrow.results[i], 1e-12, 1e-12)) << where << ", result " << i;
  EXPECT_GT(narrow.results[1].abs().max().item<double>(), 0.1) << where;
}

core::ChainOptions options_of(bool forcing) {
  core::ChainOptions o;
  o.dtype = at::kDouble;
  o.frames.causal = true;
  if (forcing) o.frames.streams = 2;
  return o;
}

TEST(TokenColumns, ThatAreUnknownChangeNothingInOneProcess) {
  plugins();  // offers libtorch
  for (const bool forcing : {false, true}) {
    LaterHost host;
    core::Chain chain(options_of(forcing), {host.get()});
    chain.ready();
    expect_carried(Context<Tensor>(chain.head()), chain, host, 4, "one process");
  }
}

TEST(TokenColumns, ThatAreUnknownGoWithTheirTokensThroughEverySplit) {
  const std::map<int, std::vector<std::string>> cases{
      {2, {"['tp']"}},
      {3, {"['cp-ring']", "['cp-ulysses']", "['balanced-sp']", "['stdit-hybrid']"}},
      {4,
       {"[{ use = 'cp-2d', ulysses = 2 }]", "[{ use = 'cp-ulysses', size = 2 }, { use = 'tp', size = 2 }]"}}};
  for (const auto& [size, layouts] : cases)
    on_ranks(size, [&layouts = layouts](const Rank& me) {
      for (const std::string& parallel : layouts) {
        const bool splits_heads = parallel.find("'tp'") != parallel.npos;
        LaterHost host;
        StrategyChain model(me, parallel, options_of(parallel == "['balanced-sp']"), {host.get()});
        model.chain.ready();
        expect_carried(model.ctx, model.chain, host, splits_heads ? 2 : 4, parallel);
      }
    });
}

}  // namespace columns
}  // namespace kinora::test
