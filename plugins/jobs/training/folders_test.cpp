// Tests each model folder by itself: what transformers and diffusers compute with the models that they saved
// (tests/oracle/make_folder_fixtures.py), and the errors if a folder and options do not match.
#include <fstream>
#include <sstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "core/base/log.hpp"
#include "core/run/identity.hpp"
#include "core/torch/network/fitting.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/open.hpp"
#include "core/torch/weights/published.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/weights.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/oracle_folders.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

fs::path oracle_folder(const std::string& name) { return fs::path(KINORA_TEST_DATA) / "oracle" / name; }

template <class N = Model>
N network_of(const std::string& id, const json& options) {
  const Component component = or_throw(test::plugins().open(id));
  return N(component, or_throw(Options::make(*component.spec, options)), ChainOptions{.dtype = at::kDouble});
}

// The options of a component whose weights are this folder.
json options_for(const std::string& id, const fs::path& folder, const json& given = json::object()) {
  const auto& spec = *or_throw(test::plugins().find(id));
  return with_config(spec, given, config_of({folder}, spec));
}

at::Tensor in_double(const at::Tensor& t) { return t.is_floating_point() ? t.to(at::kDouble) : t; }

void load(Network& network, const fs::path& folder) {
  network.load(folder);
  network.chain().begin({.struct_size = sizeof(kinora_pass), .no_grad = 1});
}

NamedTensors computed_by_tokenizer(const std::string& id, const fs::path& folder, const NamedTensors& in) {
  const at::NoGradGuard off;
  Tokenizer tokenizer = network_of<Tokenizer>(id, options_for(id, folder));
  load(tokenizer, folder);
  const at::Tensor latent = tokenizer.encode(in.at("video"));
  return {{"latent", latent}, {"video", tokenizer.decode(latent)}};
}

NamedTensors computed_by_model(const ComponentSpec& spec, const fs::path& folder, const NamedTensors& in) {
  const at::NoGradGuard off;
  Model network = network_of(spec.id, options_for(spec.id, folder));
  load(network, folder);
  NamedTensors out;
  const auto made = network.forward(in);
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i].defined()) out[spec.outputs[i].name] = made[i];
  return out;
}

// Latents depend on the parts of a pipeline's folder that encoding reads, and on no others.
class EncodeOfFolder : public test::OracleFolders {
 protected:
  std::string digest() { return digest_of(encoding()); }
  std::string encoding() const {
    return fmt::format(
        "name = 'latents'\nkind = 'encode'\ninput = '{}/shards'\nframes = 9\nheight = 32\nwidth = 48\n",
        scratch_.string());
  }
  std::string digest_of(const std::string& job) {
    const std::string text = fmt::format("[run]\nout = '{0}/out'\n[[job]]\npipeline = '{0}/published'\n{1}",
                                         scratch_.string(), job);
    const auto document = or_throw(Document::parse(text, (scratch_ / "run.toml").string()));
    std::vector<Diagnostic> problems;
    const RunFile run = read_run(document, test::runtime().registry(), with_weights, problems);
    for (const auto& p : problems) ADD_FAILURE() << format(p);
    return JobIdentities(run).of(run.jobs.back()).digest;
  }
  // Writes over a member of a JSON file.
  void set(const fs::path& file, const std::string& key, const json& value) {
    json object = object_of(file);
    object[key] = value;
    write(file, object.dump());
  }
  json object_of(const fs::path& file) {
    std::ifstream in(scratch_ / "published" / file);
    return json::parse(in);
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((scratch_ / "published" / file).parent_path());
    std::ofstream(scratch_ / "published" / file) << text;
  }
};

TEST_F(EncodeOfFolder, IsMadeAgainOnlyForThePartsThatItReads) {
  fs::create_directories(scratch_ / "shards");
  fs::copy(oracle("wan_t2v"), scratch_ / "published", fs::copy_options::recursive);
  const std::string before = digest();
  json scheduler = object_of("scheduler/scheduler_config.json");
  scheduler["flow_shift"] = 7.5;
  write("scheduler/scheduler_config.json", scheduler.dump());
  write("transformer/diffusion_pytorch_model.safetensors", "other weights");
  write("transformer/README.md", "words");
  write("assets/logo.txt", "a picture");
  EXPECT_EQ(digest(), before);
  for (const char* part : {"vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors",
                           "tokenizer/tokenizer.json"}) {
    write(part, "another");
    const std::string now = digest();
    EXPECT_NE(now, before) << part;
    fs::copy_file(oracle("wan_t2v") / part, scratch_ / "published" / part,
                  fs::copy_options::overwrite_existing);
  }
  json transformer = object_of("transformer/config.json");
  transformer["in_channels"] = 36;  // an image-to-video model: its encode job also keeps the first frame
  write("transformer/config.json", transformer.dump());
  EXPECT_NE(digest(), before);
}

TEST_F(EncodeOfFolder, DoesNotCountWhatTrainingAndGenerationDoNotRead) {
  fs::copy(oracle("wan_t2v"), scratch_ / "published", fs::copy_options::recursive);
  fs::create_directories(scratch_ / "shards");
  const std::string train = fmt::format(
                        "{}[[job]]\nkind = 'train'\ninput = 'latents'\npipeline = '{}/published'\n",
                        encoding(), scratch_.string()),
                    video = "kind = 'generate'\nprompts = ['red sea']\n";
  for (const auto& job : {train, video}) {
    SCOPED_TRACE(job);
    const std::string before = digest_of(job);
    set("model_index.json", "a_new_key", 3);
    write("assets/logo.txt", "a picture");
    EXPECT_EQ(digest_of(job), before);
    set("scheduler/scheduler_config.json", "flow_shift", 7.5);
    EXPECT_NE(digest_of(job), before) << "an option of the sampler and the loss";
    set("scheduler/scheduler_config.json", "flow_shift", 3.0);
    EXPECT_EQ(digest_of(job), before);
    write("transformer/diffusion_pytorch_model.safetensors", "other weights");
    EXPECT_NE(digest_of(job), before);
    fs::copy_file(oracle("wan_t2v") / "transformer/diffusion_pytorch_model.safetensors",
                  scratch_ / "published/transformer/diffusion_pytorch_model.safetensors",
                  fs::copy_options::overwrite_existing);
  }
}

class Folder : public testing::TestWithParam<std::string> {};

TEST_P(Folder, AloneComputesWhatItsPeerDoes) {
  const test::Oracle oracle("folders.safetensors", GetParam());
  const std::string id = oracle.options.at("component");
  const fs::path folder = oracle_folder(oracle.options.at("folder"));
  NamedTensors in;
  for (const auto& [name, t] : oracle.under("in.")) in[name] = in_double(t);
  const auto& spec = *or_throw(test::plugins().find(id));
  const auto out =
      spec.kind == "tokenizer" ? computed_by_tokenizer(id, folder, in) : computed_by_model(spec, folder, in);
  const auto wanted = oracle.under("out.");
  ASSERT_FALSE(wanted.empty());
  for (const auto& [name, t] : wanted) {
    ASSERT_TRUE(out.count(name)) << name;
    EXPECT_LT(test::difference(out.at(name), t), 1e-6) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(OfPeers, Folder,
                         testing::Values("bert", "bert_mlm", "bert_tf", "clip_text", "clip_text_4",
                                         "clip_text_projected", "clip_vision", "clip_vision_projected",
                                         "clip_as_text", "clip_as_vision", "t5", "t5_whole", "umt5",
                                         "wan_t2v", "wan_i2v", "cosmos_t2w", "cosmos2_v2w", "wan_vae",
                                         "wan22_vae", "cosmos_vae"),
                         [](const auto& info) { return info.param; });

class Folders : public testing::Test {
 protected:
  static void SetUpTestSuite() { offer_tensors(torch_tensors()); }
  // The lines of `level` and above logged while f runs.
  template <class F>
  std::string logged(F act, const char* level = "info") {
    const fs::path file = run_.folder() / "log";
    fs::remove(file);
    {
      const auto log = or_throw(LogFile::open(file));
      const std::string before = log_level();
      or_throw(set_log_level(level));
      act();
      or_throw(set_log_level(before));
    }
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  template <class F>
  static std::string refused(F act) {
    try {
      act();
    } catch (const Error& e) {
      return e.what();
    }
    return "not refused";
  }
  std::string misfit(const std::string& id, const fs::path& weights, const json& options) {
    const Component component = or_throw(test::plugins().open(id));
    return refused([&] {
      open_network(component, or_throw(Options::make(*component.spec, options)), {.device = at::kMeta})
          ->require_weights({weights});
    });
  }
  // A file with the parameters of these options under the names of a layout, as BF16. Its data is a hole of
  // the file: no byte of it is written.
  fs::path empty_weights(const std::string& id, const json& options, const std::string& layout = "kinora") {
    const fs::path file = run_.folder() / "weights.safetensors";
    const Component component = or_throw(test::plugins().open(id));
    const auto parameters = parameters_of(component, or_throw(Options::make(*component.spec, options)));
    const Layout names = layout_called(component, layout, names_of(parameters));
    json header;
    int64_t end = 0;
    for (const auto& p : parameters) {
      header[names.theirs(p.name)] = {
          {"dtype", "BF16"}, {"shape", p.shape}, {"data_offsets", {end, end + 2 * p.numel()}}};
      end += 2 * p.numel();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto size = static_cast<uint64_t>(text.size());
    std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&size), 8) << text;
    fs::resize_file(file, 8 + text.size() + static_cast<uint64_t>(end));
    return file;
  }
  test::ScratchRun run_;
};

TEST_F(Folders, OptionsThatAreGivenWinAndAreNamed) {
  const fs::path folder = oracle_folder("folders/bert");
  json options;
  const auto said = logged([&] {
    options =
        options_for("model/minilm", folder, {{"max_positions", 7}, {"heads", 4}, {"layer_norm_eps", 1e-5}});
  });
  EXPECT_EQ(options.at("max_positions"), 7);
  EXPECT_EQ(options.at("layers"), 2);
  EXPECT_THAT(said, AllOf(HasSubstr("bert/config.json"), HasSubstr("max_positions = 7, not 9"),
                          Not(HasSubstr("heads = "))));
  EXPECT_THAT(misfit("model/minilm", folder, options),
              AllOf(HasSubstr("config.json says max_positions = 9, and the options say max_positions = 7; 39 "
                              "tensors were given for 37 parameters: "),
                    HasSubstr("1 of other shapes: 'embeddings.position_embeddings.weight' is [9, 8] in the "
                              "file and [7, 8] in the model")));
}

// The keys that AutoencoderKLWan's configuration has since its second form.
TEST_F(Folders, AnOlderWriterMeansTheSame) {
  const auto& spec = *or_throw(test::plugins().find("tokenizer/wan"));
  const fs::path file = oracle_folder("wan_t2v/vae") / "config.json";
  json older = json::parse(std::ifstream(file));
  const size_t keys = older.size();
  for (const char* key : {"decoder_base_dim", "is_residual", "in_channels", "out_channels", "patch_size",
                          "scale_factor_spatial", "scale_factor_temporal", "clip_output"})
    older.erase(key);
  EXPECT_LE(older.size() + 4, keys);
  std::ofstream(run_.folder() / "config.json") << older;
  const auto options = [&](const fs::path& of) {
    return or_throw(Options::make(spec, read_config(of, spec, true)));
  };
  EXPECT_EQ(options(run_.folder() / "config.json").canonical(), options(file).canonical());
}

TEST_F(Folders, WhatAFormatHasAndNobodyUsesIsOneLine) {
  const auto lines = [&](const std::string& id, const char* name) {
    const fs::path folder = oracle_folder(std::string("folders/") + name);
    Model network = network_of(id, options_for(id, folder));
    const auto load = [&] { network.load(folder); };
    EXPECT_EQ(logged(load), "") << "not in every run";
    return logged(load, "debug");
  };
  EXPECT_THAT(
      lines("model/minilm", "bert"),
      HasSubstr("2 of 39 tensors have no use in model/minilm, the first of them 'pooler.dense.bias'"));
  const auto old = lines("model/clip-text", "clip_text_4");
  EXPECT_THAT(old, HasSubstr("1 of 37 tensors have no use in model/clip-text, the first of them "
                             "'text_model.embeddings.position_ids'"));
  EXPECT_EQ(std::count(old.begin(), old.end(), '\n'), 1) << old;
  EXPECT_EQ(lines("model/clip-text", "clip_text"), "");
}

TEST_F(Folders, AnotherNetworkWithTheSameNamesIsRefused) {
  EXPECT_THAT(refused([&] { options_for("model/t5", oracle_folder("folders/umt5")); }),
              AllOf(HasSubstr("umt5/config.json: option 'model_type' of model/t5"), HasSubstr("\"umt5\"")));
  const fs::path file = run_.folder() / "config.json";
  std::ofstream(file) << R"({"model_type": "roberta"})";
  EXPECT_THAT(refused([&] { read_config(file, *or_throw(test::plugins().find("model/minilm"))); }),
              HasSubstr("the string \"roberta\""));
}

TEST_F(Folders, AFileThatIsNamedInAFolderSaysThatTheFolderWouldDo) {
  const fs::path file = oracle_folder("wan_t2v/transformer") / "diffusion_pytorch_model.safetensors";
  EXPECT_THAT(misfit("model/wan", file, json::object()),
              AllOf(HasSubstr("config.json says "), HasSubstr("num_layers = 2"), HasSubstr("num_layers = 40"),
                    HasSubstr("; name the folder, and its configuration counts")));
}

TEST_F(Folders, APublishedSizeIsNamed) {
  const fs::path small = empty_weights("model/wan", {{"size", "1.3B"}});
  const auto said = misfit("model/wan", small, {{"size", "14B"}});
  EXPECT_THAT(
      said,
      HasSubstr("these are the weights of size = \"1.3B\", and the options say size = \"14B\"; 825 tensors "
                "were given for 1095 parameters: "));
  EXPECT_THAT(said,
              AllOf(HasSubstr("270 missing: "), HasSubstr(" and 24 more"), HasSubstr("of other shapes: ")));
  EXPECT_LT(said.size(), 1500u) << said;
  EXPECT_THAT(misfit("model/wan", small, {{"num_layers", 30}}),
              HasSubstr("these are the weights of size = \"1.3B\", and the options say no size"));
  EXPECT_THAT(misfit("model/t5", empty_weights("model/t5", {{"size", "t5-small"}}), {{"size", "t5-base"}}),
              HasSubstr("these are the weights of size = \"t5-small\""));
}

// "model/wan" in the folder of a Cosmos transformer.
TEST_F(Folders, AnotherClassIsNamed) {
  const auto said = misfit("model/wan", oracle_folder("cosmos_t2w/transformer"),
                           {{"num_layers", 2}, {"num_attention_heads", 2}, {"attention_head_dim", 12}});
  EXPECT_THAT(said, HasSubstr("config.json: the network's class is CosmosTransformer3DModel, which is "
                              "model/cosmos, but model/wan is to read it; use model/cosmos"));
  EXPECT_LT(said.size(), 1700u) << said;
  const json fits = options_for("model/wan", oracle_folder("wan_t2v/transformer"));
  json one_more = fits;
  one_more["num_layers"] = 3;
  EXPECT_THAT(misfit("model/wan", oracle_folder("wan_t2v/transformer"), one_more),
              Not(HasSubstr("WanTransformer3DModel")))
      << "a class that fits explains nothing";
}

json said_by(const std::string& id, const fs::path& weights, const json& given = json::object()) {
  return with_weights(test::plugins(), *or_throw(test::plugins().find(id)), given, {weights});
}

// NVIDIA's names and no configuration.
TEST_F(Folders, TensorsTellThePublishedSize) {
  const auto expect = [&](const std::string& id, const json& options, const std::string& layout) {
    const fs::path file = empty_weights(id, options, layout);
    EXPECT_EQ(said_by(id, file), options);
    EXPECT_EQ(said_by(id, file.parent_path()), options);
    EXPECT_EQ(misfit(id, file, said_by(id, file)), "not refused");
  };
  for (const char* release : {"predict1", "predict2"})
    for (const char* size : {release[7] == '1' ? "-7B" : "-2B", "-14B"}) {
      json options{{"size", release + std::string(size)}};
      expect("model/cosmos", options, release);
      options["in_channels"] = 17;
      expect("model/cosmos", options, release);
    }
  expect("model/wan", {{"size", "5B"}}, "original");
  expect("model/wan", {{"size", "1.3B"}}, "kinora");
  expect("model/umt5", {{"size", "umt5-base"}}, "kinora");
  const fs::path file = empty_weights("model/cosmos", {{"size", "predict2-2B"}, {"in_channels", 17}});
  const auto line = logged([&] { said_by("model/cosmos", file); });
  EXPECT_THAT(line, AllOf(HasSubstr("weights.safetensors: model/cosmos of size = \"predict2-2B\" with "
                                    "in_channels = 17, by the names and shapes of its "),
                          HasSubstr(" tensors")));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

TEST_F(Folders, TensorsTellNothingThatIsGiven) {
  const fs::path file = empty_weights("model/wan", {{"size", "1.3B"}});
  const json given{{"size", "14B"}}, own{{"num_layers", 30}, {"num_attention_heads", 12}, {"ffn_dim", 8960}},
      others{{"num_layers", 7}};
  for (const auto& options : {given, own, others}) EXPECT_EQ(said_by("model/wan", file, options), options);
  EXPECT_EQ(said_by("model/wan", run_.folder() / "absent.safetensors"), json::object());
  const fs::path larger = empty_weights("model/wan", {{"num_layers", 3}, {"ffn_dim", 99}});
  EXPECT_EQ(said_by("model/wan", larger), json::object());
  EXPECT_THAT(
      misfit("model/wan", larger, json::object()),
      AllOf(HasSubstr("their 96 tensors, the first of them 'blocks.0.attn1.norm_k.weight' [5120], match "
                      "none of the sizes 1.3B, 5B, 14B, I2V-14B; give the options that they were made "
                      "with, which kinora plugins inspect model/wan lists"),
            HasSubstr("missing")));
}

// TorchScript is a program: reading a run file must not open it.
TEST_F(Folders, TheNameOfAScriptsFolderTellsThePublishedTokenizer) {
  const json sizes = json::parse(std::ifstream(oracle_folder("cosmos_tokenizer_keys.json")));
  ASSERT_EQ(sizes.size(), 10u);
  for (const auto& [size, shapes] : sizes.items()) {
    const fs::path named = run_.folder() / ("Cosmos-Tokenizer-" + size);
    fs::create_directories(named);
    for (const char* part : {"encoder.jit", "decoder.jit"})
      std::ofstream(named / part) << "must never be opened";
    EXPECT_EQ(said_by("tokenizer/cosmos", named), json({{"size", size}}));
  }
  const fs::path plain = run_.folder() / "tokenizer";
  fs::create_directories(plain);
  std::ofstream(plain / "encoder.jit") << "must never be opened";
  EXPECT_EQ(said_by("tokenizer/cosmos", plain), json::object());
}

TEST_F(Folders, ARunTakesThePublishedSize) {
  const fs::path file = empty_weights("tokenizer/wan", {{"size", "2.2"}});
  const test::ScratchRun run(
      {{"latents", fmt::format("tokenizer = 'wan'\ntokenizer_weights = '{}'\n", file.string())}});
  ASSERT_EQ(run.problems(), "");
  EXPECT_EQ(run.spec("latents").component("tokenizer")->options.values().at("size"), "2.2");
}

TEST_F(Folders, TheVariantFp16IsReadWhereThereIsNoOther) {
  const fs::path plain = oracle_folder("folders/clip_text") / "model.safetensors";
  NamedTensors half;
  for (const auto& [name, t] : read_tensors(plain)) half[name] = t.to(at::kHalf);
  write_tensors(run_.folder() / "model.fp16.safetensors", half);
  write_tensors(run_.folder() / "model.ema.safetensors", {{"a", at::ones({1})}});
  Model network = network_of("model/clip-text", options_for("model/clip-text", plain.parent_path()));
  const auto line = logged([&] {
    network.require_weights({run_.folder()});
    network.load(run_.folder());
  });
  EXPECT_THAT(line, HasSubstr(": variant fp16 of the weights is read"));
  EXPECT_EQ(line.find("variant fp16"), line.rfind("variant fp16")) << "checking is silent: " << line;
  Model whole = network_of("model/clip-text", options_for("model/clip-text", plain.parent_path()));
  whole.load(plain);
  for (size_t i = 0; i < network.chain().leaves().size(); ++i)
    EXPECT_TRUE(network.chain().leaves()[i].tensor.equal(
        whole.chain().leaves()[i].tensor.to(at::kHalf).to(at::kDouble)))
        << network.chain().parameters()[i].name;
}

TEST_F(Folders, APickleIsNeverRead) {
  const auto bytes =
      torch::jit::pickle_save(c10::impl::GenericDict(at::StringType::get(), at::AnyType::get()));
  std::ofstream(run_.folder() / "model.pt", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  Model network = network_of("model/cosmos", {{"layers", 1}, {"heads", 2}});
  EXPECT_THAT(refused([&] { network.load(run_.folder()); }),
              AllOf(HasSubstr("model.pt is a pickle of torch.save, which is never read; `kinora inspect "),
                    HasSubstr("model.pt` prints a command that converts it")));
  std::ofstream(run_.folder() / "model.pt") << "no archive";
  EXPECT_THAT(refused([&] { network.load(run_.folder()); }),
              HasSubstr("model.pt is not an archive that libtorch reads"));
  std::ofstream(run_.folder() / "other.pth") << "";
  EXPECT_THAT(refused([&] { network.load(run_.folder()); }), HasSubstr("no *.safetensors"));
}

}  // namespace
}  // namespace kinora::core
