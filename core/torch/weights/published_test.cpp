// Naming schemes, on a small model of this file with weights "published" under two other schemes.
#include "core/torch/weights/published.hpp"

#include <cmath>
#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/manifest.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/network/fitting.hpp"
#include "core/torch/network/network.hpp"
#include "host/weights/weights.hpp"
#include "kinora/model.hpp"
#include "tests/support/component.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The authors' "net.blocks.0.norm2.weight" is our "blocks.0.norm3.weight", and vice versa: two names swap
// places.
std::string from_original(std::string name) {
  if (name.find("_extra_state") != name.npos || !name.starts_with("net.")) return "";
  name.erase(0, 4);
  const auto at = name.find("norm");
  if (at != name.npos && (name[at + 4] == '2' || name[at + 4] == '3')) name[at + 4] ^= 1;
  return name;
}
std::string to_original(std::string name) {
  const auto at = name.find("norm");
  if (at != name.npos && (name[at + 4] == '2' || name[at + 4] == '3')) name[at + 4] ^= 1;
  return "net." + name;
}
// Maps many names to one.
std::string careless(std::string name) { return name.starts_with("net.") ? "blocks.0.norm2.weight" : ""; }

class Small final : public kinora::Model<at::Tensor> {
 public:
  struct Options {
    int64_t layers = 2;
    std::string size;
  };
  static void describe(Describe<Options>& d) {
    d.name("small").help("of a test").input("x", "[B, 4]", "float").output("output", "[B, 4]", "float");
    d.layout("original", "as its authors save it", from_original, to_original);
    d.layout("read-only", "", [](std::string name) { return name.starts_with("r.") ? name.substr(2) : ""; });
    d.layout("careless", "", careless, careless);
    d.layout("alias", "the same names");
    d.layout("one-way", "", nullptr, [](std::string name) { return "w." + name; });
    d.option("layers", &Options::layers).help("blocks");
    d.option("size", &Options::size).choices({"", "three", "also three"}).help("as published");
  }
  Small(const Options& o, const Context<at::Tensor>& ctx) {
    for (int64_t i = 0; i < (o.size.empty() ? o.layers : 3); ++i)
      for (const char* name : {".norm2.weight", ".norm3.weight"})
        parameters_.push_back(ctx.parameter(
            {.name = "blocks." + std::to_string(i) + name, .shape = {4}, .init = Init::normal(1)}));
    head_ = ctx.parameter({.name = "head.weight", .shape = {4, 4}, .init = Init::normal(1)});
  }
  std::vector<at::Tensor> forward(const Context<at::Tensor>& ctx, const Named<at::Tensor>& in) override {
    at::Tensor x = in["x"];
    for (size_t i = 0; i < parameters_.size(); ++i)  // asymmetric in a block's two
      x = i % 2 ? x + ctx.value(parameters_[i]) : x * ctx.value(parameters_[i]);
    return {ctx.linear(x, head_, 0, 0)};
  }
  int64_t blocks() const override { return 1; }

 private:
  std::vector<kinora_param> parameters_;
  kinora_param head_;
};

class Published : public testing::Test {
 protected:
  Published() : folder_(fs::temp_directory_path() / ("kinora-published-" + std::to_string(getpid()))) {
    test::plugins();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    spec_ = test::component(described<Small>().toml("model"));
    component_ = {&spec_, nullptr, kinora::Model<at::Tensor>::api<Small>()};
  }
  ~Published() override { fs::remove_all(folder_); }

  std::unique_ptr<Network> network(const json& given = json::object()) {
    options_ = or_throw(Options::make(spec_, given));
    return open_network(component_, options_, ChainOptions{.dtype = at::kDouble});
  }
  // Values under the authors' names; each is computed from our name.
  NamedTensors original() {
    NamedTensors out;
    const auto net = network();
    for (const auto& p : net->chain().parameters())
      out[to_original(p.name)] =
          test::numbers(p.name, p.shape).to(p.shape.size() == 1 ? at::kFloat : at::kBFloat16);
    return out;
  }
  json convert(const fs::path& in, const fs::path& out, json more = json::object(), bool component = true) {
    json request = {{"in", in.string()}, {"out", out.string()}, {"options", json::object()}};
    if (component) request["component"] = spec_.id;
    request.update(more);
    return convert_weights(component ? &component_ : nullptr, request);
  }
  std::string refused(const fs::path& in, const fs::path& out, const json& more = json::object(),
                      bool component = true) {
    try {
      convert(in, out, more, component);
    } catch (const Error& e) {
      EXPECT_FALSE(fs::exists(out)) << out;
      return e.what();
    }
    return "not refused";
  }
  static std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
  ComponentSpec spec_;
  Component component_;
  Options options_;
};

TEST_F(Published, LayoutsAreInTheManifestAndBehindTheAbi) {
  ASSERT_EQ(spec_.layouts.size(), 5u);
  EXPECT_EQ(spec_.layouts[0].name, "original");
  EXPECT_EQ(spec_.layouts[0].help, "as its authors save it");
  const auto layouts = layouts_of(component_, {"head.weight"});
  ASSERT_EQ(layouts.size(), 6u);
  EXPECT_EQ(layouts[0].name(), "kinora");
  EXPECT_EQ(layouts[0].ours("a"), "a");
  EXPECT_EQ(layouts[1].ours("net.blocks.0.norm2.weight"), "blocks.0.norm3.weight");
  EXPECT_EQ(layouts[1].theirs("blocks.0.norm3.weight"), "net.blocks.0.norm2.weight");
  EXPECT_EQ(layouts[1].ours("net.x._extra_state"), "");
  EXPECT_EQ(layouts[4].ours("a"), "a");
  EXPECT_EQ(layouts[4].theirs("a"), "a");
  EXPECT_THROW(layouts[2].theirs("a"), Error);
  EXPECT_EQ(layouts[5].ours("w.head.weight"), "head.weight");
  EXPECT_EQ(layouts[5].ours("w.other"), "w.other");
  EXPECT_THROW(layout_called(component_, "orignal", {}), Error);
}

TEST_F(Published, APluginThatWasBuiltBeforeLayoutsWereHasNone) {
  kinora_model older = component_.table<kinora_model>();
  older.struct_size = offsetof(kinora_model, layout);
  older.layout = reinterpret_cast<decltype(older.layout)>(1);
  EXPECT_EQ(layouts_of({&spec_, nullptr, &older}, {}).size(), 1u);
}

TEST_F(Published, ALayoutWithAValueThatIsNotKnownIsRefused) {
  kinora_model newer = component_.table<kinora_model>();
  newer.layout = [](uint64_t i) -> const kinora_layout* {
    static const kinora_layout one{sizeof one, 7, nullptr, "original", nullptr, nullptr};
    return i == 0 ? &one : nullptr;
  };
  try {
    layouts_of({&spec_, nullptr, &newer}, {});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_UNSUPPORTED);
    EXPECT_THAT(e.what(), HasSubstr("model/small: reserved of its layout 'original' is 7"));
  }
}

// norm2 and norm3 have the same shape: swapped, they would load without an error.
TEST_F(Published, LoadingFindsTheLayoutByItself) {
  auto weights = original();
  weights["net.blocks.0._extra_state"] = at::ones({3});
  write_tensors(folder_ / "w.safetensors", weights);
  const auto net = network();
  net->load(folder_ / "w.safetensors");
  for (const auto& leaf : net->chain().leaves())
    EXPECT_TRUE(at::equal(leaf.tensor.detach(), weights[to_original(leaf.name)].to(at::kDouble)))
        << leaf.name;
  weights.erase("net.blocks.1.norm3.weight");
  write_tensors(folder_ / "w.safetensors", weights);
  try {
    net->load(folder_ / "w.safetensors");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("1 missing: 'blocks.1.norm2.weight'"));
    EXPECT_THAT(e.what(), HasSubstr("model/small"));
  }
}

TEST_F(Published, ThereAndBackIsTheSameBytes) {
  const fs::path first = folder_ / "first.safetensors", second = folder_ / "second.safetensors";
  write_tensors(first, original(), {{"format", "pt"}, {"note", "kept"}});
  std::ofstream(folder_ / "config.json") << R"({"layers": 2})";
  const auto there = convert(first, folder_ / "ours", {{"to", "kinora"}, {"max_shard", 48}});
  EXPECT_EQ(there["from"], "original");
  EXPECT_EQ(there["file"], (folder_ / "ours/diffusion_pytorch_model.safetensors.index.json").string());
  EXPECT_TRUE(fs::exists(folder_ / "ours/config.json"));
  const auto opened = or_throw(Safetensors::open(folder_ / "ours"));
  EXPECT_NE(opened.find("blocks.0.norm3.weight"), nullptr);
  EXPECT_EQ(opened.find("net.blocks.0.norm3.weight"), nullptr);
  EXPECT_EQ(opened.metadata().at("note"), "kept");
  const auto back = convert(folder_ / "ours", second, {{"to", "original"}});
  EXPECT_EQ(back["from"], "kinora");
  EXPECT_EQ(bytes_of(second), bytes_of(first));
  EXPECT_THAT(refused(first, folder_ / "x.safetensors", {{"to", "read-only"}}),
              HasSubstr("is read, not written"));
}

TEST_F(Published, ConvertRefusesWhatItWouldGuessOrLose) {
  const fs::path in = folder_ / "in.safetensors", out = folder_ / "out.safetensors";
  write_tensors(in, original());
  EXPECT_THAT(refused(in, out, {{"to", "kinora"}}, false), HasSubstr("need --component ID"));
  EXPECT_THAT(refused(in, out, {{"to", "orignal"}}), HasSubstr("did you mean 'original'?"));
  EXPECT_THAT(refused(in, out, {{"from", "careless"}, {"to", "kinora"}}),
              HasSubstr("would both be called 'blocks.0.norm2.weight'"));
  auto misspelt = original(), fewer = original();
  misspelt["net.blocks.1.nrom2.weight"] = misspelt.at("net.blocks.1.norm2.weight");
  misspelt.erase("net.blocks.1.norm2.weight");
  fewer.erase("net.blocks.1.norm2.weight");
  write_tensors(folder_ / "misspelt.safetensors", misspelt);
  write_tensors(folder_ / "fewer.safetensors", fewer);
  EXPECT_THAT(refused(folder_ / "misspelt.safetensors", out),
              AllOf(HasSubstr("'blocks.1.norm3.weight'"), HasSubstr("'blocks.1.nrom2.weight'")));
  EXPECT_THAT(refused(folder_ / "fewer.safetensors", out), HasSubstr("1 missing: 'blocks.1.norm3.weight'"));
  EXPECT_THAT(refused(in, out, {{"dtype", "bf61"}}), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(refused(folder_ / "none.safetensors", out), HasSubstr("none.safetensors"));
  write_tensors(folder_ / "other.safetensors", {{"x.y", at::ones({1})}});
  EXPECT_THAT(refused(folder_ / "other.safetensors", out),
              HasSubstr("none of its 1 names is a parameter of model/small"));
  convert(in, out);
  try {
    convert(in, out);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("exists already"));
  }
}

TEST_F(Published, DroppedTensorsAreSaid) {
  auto weights = original();
  weights["net.blocks.0._extra_state"] = at::ones({3});
  write_tensors(folder_ / "in.safetensors", weights);
  const auto result = convert(folder_ / "in.safetensors", folder_ / "out.safetensors", {{"to", "kinora"}});
  EXPECT_THAT(result["dropped"].get<std::vector<std::string>>(), ElementsAre("net.blocks.0._extra_state"));
  EXPECT_EQ(result["tensors"], 5);
}

TEST_F(Published, DtypesChangeFloatsOnly) {
  write_tensors(folder_ / "in.safetensors",
                {{"f", at::full({2}, 1.0 / 3, at::kFloat)}, {"i", at::ones({2}, at::kLong)}});
  convert(folder_ / "in.safetensors", folder_ / "out.safetensors", {{"dtype", "bf16"}}, false);
  const auto out = read_tensors(folder_ / "out.safetensors");
  EXPECT_EQ(out.at("f").scalar_type(), at::kBFloat16);
  EXPECT_EQ(out.at("i").scalar_type(), at::kLong);
  EXPECT_TRUE(at::equal(out.at("f"), at::full({2}, 1.0 / 3, at::kFloat).to(at::kBFloat16)));
}

TEST_F(Published, APipelineGivesTheFolderThatFits) {
  for (const char* part : {"transformer", "vae", "text_encoder"}) fs::create_directories(folder_ / part);
  std::ofstream(folder_ / "model_index.json") << "{}";
  std::ofstream(folder_ / "transformer/config.json")
      << R"({"_class_name": "Small", "layers": 3, "layerz": 1})";
  ComponentSpec tokenizer, encoder;
  tokenizer.kind = "tokenizer", encoder.kind = "model", encoder.inputs = {{"input_ids", "", "", ""}};
  EXPECT_EQ(published_part(folder_, spec_), folder_ / "transformer");
  EXPECT_EQ(published_part(folder_, tokenizer), folder_ / "vae");
  EXPECT_EQ(published_part(folder_, encoder), folder_ / "text_encoder");
  EXPECT_EQ(published_part(folder_ / "vae", spec_), folder_ / "vae");
  EXPECT_EQ(read_config(folder_, spec_), json({{"layers", 3}}));
  fs::create_directories(folder_ / "transformer_2");
  EXPECT_THAT(refused(folder_, folder_ / "out.safetensors"),
              HasSubstr("transformer for high noise and transformer_2 for low noise"));
  EXPECT_EQ(published_part(folder_, tokenizer), folder_ / "vae");
  fs::remove_all(folder_ / "transformer_2");
  fs::remove_all(folder_ / "transformer");
  EXPECT_THAT(refused(folder_, folder_ / "out.safetensors"),
              HasSubstr("has no transformer or unet for model/small; it has: text_encoder, vae"));
  EXPECT_THAT(refused(folder_, folder_ / "out.safetensors", json::object(), false),
              HasSubstr("is a whole pipeline"));
}

// Each file uses its own naming scheme; a later file replaces tensors of earlier ones.
TEST_F(Published, WeightsOfSeveralFilesGoOverEachOther) {
  const auto whole = original();
  NamedTensors first, second{{"head.weight", at::full({4, 4}, 7.0)}};
  for (const auto& [name, t] : whole)
    (name.find("blocks.1.") == name.npos
         ? first
         : second)[name.find("blocks.1.") == name.npos ? name : from_original(name)] = t;
  write_tensors(folder_ / "first.safetensors", first);
  write_tensors(folder_ / "second.safetensors", second);
  const auto values_after = [&](const std::vector<fs::path>& files) {
    const auto net = network();
    net->load(files);
    return assemble(net->chain().parameters(), net->chain().leaves());
  };
  const auto both = values_after({folder_ / "first.safetensors", folder_ / "second.safetensors"});
  for (const auto& [name, t] : both)
    EXPECT_TRUE(at::equal(t, name == "head.weight" ? at::full({4, 4}, 7.0, at::kDouble)
                                                   : whole.at(to_original(name)).to(at::kDouble)))
        << name;
  const auto turned = values_after({folder_ / "second.safetensors", folder_ / "first.safetensors"});
  EXPECT_TRUE(at::equal(turned.at("head.weight"), whole.at("net.head.weight").to(at::kDouble)));
}

TEST_F(Published, WeightsOfSeveralFilesSayWhatIsMissing) {
  write_tensors(folder_ / "first.safetensors", {{"blocks.0.norm2.weight", at::ones({4})},
                                                {"blocks.0.norm3.weight", at::ones({4})},
                                                {"blocks.1.norm2.weight", at::ones({4})},
                                                {"blocks.1.norm3.weight", at::ones({4})}});
  write_tensors(folder_ / "second.safetensors", {{"haed.weight", at::ones({4, 4})}});
  try {
    network()->load({folder_ / "first.safetensors", folder_ / "second.safetensors"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("first.safetensors, "), HasSubstr("second.safetensors together do not fit"),
                      HasSubstr("1 missing: 'head.weight', did you mean 'haed.weight'?")));
  }
}

TEST_F(Published, IntegersAreRefusedWhereFloatsAreDeclared) {
  auto weights = original();
  for (const auto type : {at::kInt, at::kBool}) {
    weights["net.head.weight"] = at::ones({4, 4}, type);
    write_tensors(folder_ / "in.safetensors", weights);
    try {
      network()->require_weights({folder_ / "in.safetensors"});
      FAIL() << "not refused";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("1 of integers: 'head.weight' is "));
      EXPECT_THAT(e.what(), Not(HasSubstr("all of them"))) << "the message names everything already";
    }
  }
  weights["net.head.weight"] = at::ones({4, 4}, at::kHalf);
  write_tensors(folder_ / "in.safetensors", weights);
  network()->require_weights({folder_ / "in.safetensors"});
}

TEST_F(Published, SizesThatFitAlikeAreNamed) {
  NamedTensors weights;
  const auto three = network({{"layers", 3}});
  for (const auto& p : three->chain().parameters()) weights[p.name] = at::zeros(p.shape);
  const fs::path file = folder_ / "in.safetensors";
  write_tensors(file, weights);
  try {
    with_fitting_size(component_, json::object(), {file});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("in.safetensors: these 7 tensors fit model/small of size \"three\" and "
                                    "\"also three\" alike; choose one: size = \"three\""));
  }
  EXPECT_EQ(with_fitting_size(component_, {{"layers", 3}}, {file}), json({{"layers", 3}}));
}

}  // namespace
}  // namespace kinora::core
