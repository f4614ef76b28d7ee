// pipeline = "FOLDER" from encode to train to generate, for every published family: what the folder says holds in
// each job. Losses equal those of diffusers' models (tests/oracle/make_pipeline_loss_fixtures.py).
#include <sstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/run/description.hpp"
#include "core/torch/media/signals.hpp"
#include "host/stages/stage_check.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "plugins/jobs/windows/no_text.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/oracle_folders.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ResultOf;

struct Family {
  const char* name;
  std::vector<const char*> layers;  // published folders, later ones over earlier ones
  json index;                       // members of model_index.json that differ
  const char *image, *last_image;
  int64_t frames, width;
  std::vector<std::string> experts{""};
};

const std::vector<Family>& families() {
  constexpr const char *kFirst = "wan_i2v/first.png", *kSquare = "cosmos2_v2w/first.png";
  static const std::vector<Family> all{
      {"t2v", {"wan_t2v"}, {}, "", "", 9, 48},
      {"i2v", {"wan_i2v"}, {}, kFirst, "", 9, 48},
      {"flf2v", {"wan_i2v", "wan_flf2v"}, {}, kFirst, "wan_flf2v/last.png", 9, 48},
      {"a14b_t2v", {"wan_t2v", "wan_a14b_t2v"}, {}, "", "", 9, 48, {"high", "low"}},
      {"a14b_i2v", {"wan_t2v", "wan_a14b_i2v"}, {}, kFirst, "", 9, 48, {"high", "low"}},
      {"ti2v", {"wan_t2v"}, {{"expand_timesteps", true}}, kFirst, "", 9, 48},
      {"t2w", {"cosmos_t2w"}, {}, "", "", 9, 32},
      {"v2w",
       {"cosmos_t2w", "cosmos_v2w"},
       {{"_class_name", "CosmosVideoToWorldPipeline"}},
       kSquare,
       "",
       9,
       32},
      {"cosmos2_v2w", {"cosmos2_v2w"}, {}, kSquare, "", 9, 32},
      {"cosmos2_t2i", {"cosmos2_t2i"}, {}, "", "", 1, 32}};
  return all;
}

const Family& family(const std::string& name) {
  return *std::find_if(families().begin(), families().end(), [&](const Family& f) { return f.name == name; });
}

class PublishedTraining : public test::OracleFolders, public testing::WithParamInterface<const char*> {
 protected:
  // The family's folder.
  fs::path assembled(const Family& of) {
    const fs::path folder = scratch_ / "published";
    fs::remove_all(folder);
    for (const auto& layer : of.layers)
      fs::copy(oracle(layer), folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    if (of.index.is_null()) return folder;
    json index = json::parse(std::ifstream(folder / "model_index.json"));
    index.update(of.index);
    std::ofstream(folder / "model_index.json") << index.dump();
    return folder;
  }
  // Two clips with this caption.
  fs::path shards(const std::string& name, const std::string& caption) {
    const fs::path out = scratch_ / name, fields = scratch_ / (name + "-fields");
    fs::create_directories(out);
    fs::create_directories(fields);
    for (const char* key : {"a", "c"}) {
      fs::copy_file(fs::path(KINORA_TEST_DATA) / kClips.at(key), fields / (std::string(key) + ".mp4"));
      std::ofstream(fields / (std::string(key) + ".txt")) << caption;
    }
    const std::string command = fmt::format("cd '{}' && tar --format=ustar -cf '{}/shard-000000.tar' a.* c.*",
                                            fields.string(), out.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    return out;
  }
  std::string encode(const std::string& name, const Family& of, const fs::path& shards,
                     const std::string& more = "") const {
    return fmt::format(
        "[[job]]\nname = '{}'\nkind = 'encode'\ninput = '{}'\npipeline = '{}/published'\nframes = {}\nheight "
        "= "
        "32\nwidth = {}\nstride = 1000\n{}\n",
        name, shards.string(), scratch_.string(), of.frames, of.width, more);
  }
  // A rate at which every change of a weight is below the smallest number.
  std::string train(const std::string& name, const std::string& latents, const std::string& expert = "",
                    const std::string& more = "learning_rate = 1e-300\n") const {
    return fmt::format(
        "[[job]]\nname = '{}'\nkind = 'train'\ninput = '{}'\npipeline = '{}/published'\nexpert = '{}'\nsteps "
        "= "
        "1\nbatch = 2\nwarmup = 0\ntensorboard = false\n{}",
        name, latents, scratch_.string(), expert, more);
  }
  std::string generate(const std::string& name, const Family& of, const std::string& input = "",
                       const std::string& more = "") const {
    std::string out = fmt::format(
        "[[job]]\nname = '{}'\nkind = 'generate'\npipeline = '{}/published'\nprompts = ['red sea']\nsteps = "
        "5\nframes = {}\nheight = 32\nwidth = {}\nformat = ['latents']\n",
        name, scratch_.string(), of.frames, of.width);
    if (!input.empty()) out += "input = " + input + "\n";
    if (*of.image) out += fmt::format("image = '{}'\n", oracle(of.image).string());
    if (*of.last_image) out += fmt::format("last_image = '{}'\n", oracle(of.last_image).string());
    return out + more;
  }
  // A job with other lines in place of its folder.
  static std::string in_place_of_folder(std::string job, const std::string& lines) {
    const size_t at = job.find("pipeline");
    return job.replace(at, job.find('\n', at) + 1 - at, lines);
  }
  RunFile read(const std::string& jobs, std::vector<Diagnostic>& problems) const {
    const auto text = fmt::format("[run]\nout = '{}'\nseed = 3\n{}", scratch_.string(), jobs);
    const auto document = or_throw(Document::parse(text, (scratch_ / "run.toml").string()));
    RunFile run = read_run(document, test::runtime().registry(), with_weights, problems);
    if (problems.empty()) problems = check_jobs(test::runtime(), run, 0);
    return run;
  }
  RunFile read(const std::string& jobs) const {
    std::vector<Diagnostic> problems;
    RunFile run = read(jobs, problems);
    for (const auto& p : problems) ADD_FAILURE() << format(p);
    return run;
  }
  // The problems of the jobs, a line each.
  std::string said(const std::string& jobs) const {
    std::vector<Diagnostic> problems;
    read(jobs, problems);
    std::string out;
    for (const auto& p : problems) out += format(p) + "\n";
    return out;
  }
  // The warnings that act() logs.
  template <class F>
  std::string warnings(F act) const {
    const fs::path file = scratch_ / "log";
    fs::remove(file);
    {
      const auto log = or_throw(LogFile::open(file));
      const std::string before = log_level();
      or_throw(set_log_level("warn"));
      act();
      or_throw(set_log_level(before));
    }
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  // Each with its summary, as the runner writes it.
  static void perform(const RunFile& run) {
    for (const auto& job : run.jobs) {
      JobContext context(test::runtime(), run, job, true);
      test::run_job(context);
      context.summary.update({{"status", "done"}, {"job", job.name}});
      std::ofstream(context.folder() / "summary.json") << context.summary.dump();
    }
  }
  at::Tensor latent(const std::string& job) const {
    return read_tensors(scratch_ / job / "videos" / "000.latents.safetensors").at("latent").clone();
  }
  json weights(const std::string& job) const {
    return json::parse(std::ifstream(scratch_ / job / "videos" / "000.json")).at("weights");
  }
  double loss(const std::string& job) const {
    std::ifstream in(scratch_ / job / "metrics.jsonl");
    std::string line;
    std::getline(in, line);
    return json::parse(line).at("loss").get<double>();
  }
};

// A train job's loss and model, in float64.
struct Opened {
  JobView job;
  TrainOptions options;
  LossInstance loss;
  Component model;
  Model network;
  Objective objective;
  Opened(const RunFile& run, const JobSpec& spec)
      : job(test::runtime(), run, spec),
        options(job.options<TrainOptions>()),
        loss(job.open_slot("loss"), spec.component("loss")->options),
        model(job.open_slot("model")),
        network(model, its(), {.dtype = at::kDouble}),
        objective(loss, network, *model.spec, at::kDouble, at::kDouble, at::kCPU, signals_of(its()),
                  its().values().value("in_channels", int64_t{0})) {
    network.load(options.weights);
  }
  const Options& its() const { return job.spec().component("model")->options; }
  // As a sample of the training that has the most frames given.
  Given given() const {
    const GivenDraw draw(options, loss, 3);
    int64_t n = 0;
    const auto& counts = options.condition_frames;
    while (!counts.empty() && draw(n, 1).frames[0] < *std::max_element(counts.begin(), counts.end())) ++n;
    return draw(n, 1);
  }
};

TEST_P(PublishedTraining, ThatLearnsNothingLeavesTheVideo) {
  const Family& of = family(GetParam());
  assembled(of);
  std::string jobs = generate("published-video", of) + encode("latents", of, shards("shards", "red sea"));
  std::vector<std::string> inputs;  // of the generate jobs
  if (of.experts.size() == 2) {
    jobs += train("dit", "latents", "both");
    inputs = {"'dit-high'", "'dit-low'", "'dit'"};
  } else {
    jobs += train("dit", "latents");
    inputs = {"'dit'"};
  }
  for (size_t i = 0; i < inputs.size(); ++i) jobs += generate(fmt::format("video-{}", i), of, inputs[i]);
  perform(read(jobs));
  const json published = weights("published-video");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string video = fmt::format("video-{}", i);
    EXPECT_TRUE(latent(video).equal(latent("published-video"))) << inputs[i];
    const bool high = of.experts.size() == 1 || i != 1, low = i > 0;  // the trained ones
    const json made = weights(video);
    EXPECT_EQ(made.at("model") != published.at("model"), high) << inputs[i];
    ASSERT_EQ(made.contains("model_2"), of.experts.size() == 2);
    if (!made.contains("model_2")) continue;
    EXPECT_EQ(made.at("model_2") != published.at("model_2"), low) << inputs[i];
  }
}

TEST_P(PublishedTraining, HasTheLossOfDiffusers) {
  const at::NoGradGuard off;
  const Family& of = family(GetParam());
  assembled(of);
  std::string jobs = encode("latents", of, shards("shards", "red sea"));
  // diffusers' time positions of Predict 2, which NVIDIA's models were not trained with.
  const std::string more =
      std::string(of.name) == "cosmos2_v2w" ? "model = { use = 'cosmos', base_fps = 24 }\n" : "";
  for (const auto& expert : of.experts)
    jobs += train("dit" + expert, "latents", expert, "learning_rate = 1e-300\n" + more);
  const RunFile run = read(jobs);
  std::vector<std::unique_ptr<Opened>> trained;
  for (size_t i = 1; i < run.jobs.size(); ++i) trained.push_back(std::make_unique<Opened>(run, run.jobs[i]));
  const test::Oracle oracle("pipeline_loss.safetensors", of.name);
  const at::Tensor sigmas = oracle.exact("sigma"), want = oracle.exact("loss");
  const std::string name = of.name;
  const bool first = name == "t2w" || name == "v2w", second = name.starts_with("cosmos2");
  const std::vector<int64_t> shape = first    ? std::vector<int64_t>{1, 4, 3, 8, 8}
                                     : second ? std::vector<int64_t>{1, 2, of.frames == 1 ? 1 : 3, 4, 4}
                                              : std::vector<int64_t>{1, 2, 3, 4, 6};
  double apart = 0;
  for (int64_t i = 0; i < sigmas.size(0); ++i) {
    const at::Tensor sigma = sigmas.narrow(0, i, 1);
    const auto numbers = [&](const char* what, at::IntArrayRef of_shape) {
      return test::numbers(what + std::to_string(i), of_shape);
    };
    Opened& t =
        *trained[trained.size() == 2 &&
                         sigma.item<double>() <
                             trained[0]->job.spec().component("loss")->options.values().at("sigma_min")
                     ? 1
                     : 0];
    NamedTensors batch{{"latent", numbers("latent", shape)},
                       {"text", numbers("text", {1, 512, 10})},
                       {"text_mask", at::ones({1, 512}, at::kBool)}};
    if (name == "i2v") batch["image"] = numbers("image", {1, 5, 8});
    if (name == "flf2v") batch["image"] = numbers("image", {1, 10, 8});
    if (name == "i2v" || name == "a14b_i2v" || name == "flf2v")
      batch["condition"] = numbers("condition", {1, 6, 3, 4, 6});
    if (first) batch["fps"] = at::full({1}, 30, at::kDouble);
    if (name == "cosmos2_v2w") batch["fps"] = at::full({1}, 16, at::kDouble);
    const double got = t.objective.losses(batch, sigma, numbers("noise", shape), t.given()).item<double>() /
                       (second ? 10 : 1);
    apart = test::worse(apart, std::abs(got / want[i].item<double>() - 1));
  }
  EXPECT_LT(apart, 1e-5);
  std::printf("          %s: losses differ by %.2g\n", of.name, apart);
}

// s = shift u / (1 + (shift - 1) u) of a logit-normal u; an expert's within the boundary, in closed form.
TEST_P(PublishedTraining, DrawsTheLevelsOfTheFolder) {
  const Family& of = family(GetParam());
  const fs::path folder = assembled(of);
  std::string jobs = encode("latents", of, shards("shards", "red sea"));
  for (const auto& expert : of.experts) jobs += train("dit" + expert, "latents", expert);
  const RunFile run = read(jobs);
  const json scheduler = json::parse(std::ifstream(folder / "scheduler" / "scheduler_config.json")),
             index = json::parse(std::ifstream(folder / "model_index.json"));
  const double shift = scheduler.value("flow_shift", 1.0),
               boundary = of.experts.size() == 2 ? index.at("boundary_ratio").get<double>() : 0;
  for (size_t i = 1; i < run.jobs.size(); ++i) {
    const Opened t(run, run.jobs[i]);
    const at::Tensor drawn = std::get<0>(LevelDraw(t.options, t.loss, 3)(0, 10000, 1, "train.sigma").sort());
    double low = 0, high = std::numeric_limits<double>::infinity(), median = 1;  // of a log-normal level
    if (scheduler.contains("flow_shift")) {
      const auto below = [&](double s) {
        const double u = s / (shift - (shift - 1) * s);
        return 0.5 * std::erfc(-std::log(u / (1 - u)) / std::sqrt(2.0));
      };
      low = t.options.expert == "high" ? boundary : 0;
      high = t.options.expert == "low" ? boundary : 1;
      const double z =
          at::special_ndtri(at::tensor({(below(low) + below(high)) / 2}, at::kDouble)).item<double>();
      const double u = 1 / (1 + std::exp(-z));
      median = shift * u / (1 + (shift - 1) * u);
    }
    EXPECT_NEAR(drawn[5000].item<double>(), median, 0.01 * (scheduler.contains("flow_shift") ? 1 : 4));
    EXPECT_GT(drawn[0].item<double>(), low);
    EXPECT_LT(drawn[-1].item<double>(), high);
    EXPECT_GT(drawn.diff().min().item<double>(), 0) << "no two draws fall on a limit";
  }
}

TEST_P(PublishedTraining, DropsCaptionsToAnEmptyText) {
  const Family& of = family(GetParam());
  assembled(of);
  const std::string rate = "learning_rate = 1e-300\n", expert = of.experts[0];
  perform(read(encode("latents", of, shards("shards", "red sea")) +
               encode("empty", of, shards("no-text", "")) +
               encode("zeros", of, scratch_ / "shards", "encode_empty = false\n") +
               train("dropped", "latents", expert, rate + "text_dropout = 1.0\n") +
               train("without", "empty", expert, rate + "text_dropout = 0.0\n") +
               train("of-zeros", "zeros", expert, rate + "text_dropout = 1.0\n") +
               train("kept", "latents", expert, rate + "text_dropout = 0.0\n")));
  EXPECT_EQ(loss("dropped"), loss("without"));
  EXPECT_NE(loss("dropped"), loss("of-zeros"));
  EXPECT_NE(loss("dropped"), loss("kept"));
}

std::vector<const char*> names() {
  std::vector<const char*> out;
  for (const auto& f : families()) out.push_back(f.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Families, PublishedTraining, testing::ValuesIn(names()),
                         [](const auto& info) { return std::string(info.param); });

class NoText : public PublishedTraining {};

TEST_F(NoText, IsTheSameOfATableOfData) {
  const Family& of = family("t2v");
  assembled(of);
  const fs::path set = shards("shards", "red sea");
  std::string live = encode("live", of, set);
  const std::string path = "'" + set.string() + "'";
  live.replace(live.find(path), path.size(), "{ path = " + path + " }");
  const RunFile run =
      read(encode("latents", of, set) + live + train("dit", "live") + train("cached", "latents"));
  perform(run);
  const auto written = [&](const char* job) {
    return read_tensors(scratch_ / job / "empty_text.safetensors").at("text").clone();
  };
  EXPECT_TRUE(written("live").equal(written("latents")));
  EXPECT_TRUE(no_text_of({test::runtime(), run, run.jobs.at(2)}).equal(written("latents")));
  std::fstream(scratch_ / "latents" / "empty_text.safetensors", std::ios::in | std::ios::out)
          .seekp(-4, std::ios::end)
      << "####";
  EXPECT_THAT(
      test::refusal([&] {
        no_text_of({test::runtime(), run, run.jobs.at(3)});
      }),
      HasSubstr(
          "empty_text.safetensors is damaged: its SHA-256 is not that of what was written; remove it and "
          "run its job again: kinora run FILE --only latents"));
  fs::remove(scratch_ / "latents" / "empty_text.safetensors");
  EXPECT_THAT(test::refusal([&] {
                no_text_of({test::runtime(), run, run.jobs.at(3)});
              }),
              HasSubstr("empty_text.safetensors is missing; run job 'latents' again"));
}

class PublishedFolder : public PublishedTraining {};

// A generate job takes the folder of the train job before it as its own.
TEST_F(PublishedFolder, IsSampledAsItsFolderSays) {
  const Family& of = family("t2v");
  assembled(of);
  const std::string alone = in_place_of_folder(generate("without", of, "'dit'"), "");
  const RunFile run = read(encode("latents", of, shards("shards", "red sea")) + train("dit", "latents") +
                           generate("with", of, "'dit'") + alone);
  json one = spec_json(run.jobs.at(2)), other = spec_json(run.jobs.at(3));
  EXPECT_EQ(other["options"]["guidance"], 5);
  one.erase("name"), other.erase("name");
  EXPECT_EQ(one, other);
}

// Only its weights would be read: scheduler, texts and given frames would be lost.
TEST_F(PublishedFolder, OfAWholeFolderAsWeightsIsRefused) {
  const Family& of = family("a14b_t2v");
  const std::string folder = assembled(of).string(), set = encode("latents", of, shards("shards", "red sea")),
                    network = fmt::format("model = 'wan'\nloss = 'flow'\nweights = '{}'\n", folder),
                    decoder = fmt::format("tokenizer = 'wan'\ntokenizer_weights = '{}/vae'\n", folder);
  const auto expect = [&](const std::string& jobs, const std::string& option) {
    const std::string problems = said(jobs);
    EXPECT_THAT(problems,
                HasSubstr(fmt::format("{0} = \"{1}\": this is a whole pipeline, and {0} takes one network, "
                                      "without the scheduler and whatever else the folder says; set "
                                      "pipeline = \"{1}\", or name the folder of one network in it",
                                      option, folder)));
    EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'), 1) << problems;
  };
  expect(set + in_place_of_folder(train("dit", "latents"), network), "weights");
  expect(in_place_of_folder(generate("video", of), network + decoder), "weights");
  expect(generate("video", of, "", "weights_2 = '" + folder + "'\n"), "weights_2");
  expect(encode("latents", of, scratch_ / "shards", "tokenizer_weights = '" + folder + "'\n"),
         "tokenizer_weights");
}

// The run file says what an encode job will make.
TEST_F(PublishedFolder, OfOtherLatentsOrTextsIsRefusedBeforeAnyWork) {
  const fs::path set = shards("shards", "red sea");
  // Encodes with the folder of one family and trains, or with another job, uses that of another.
  const auto with = [&](const std::string& encoded, const std::string& trained,
                        const std::string& more = "") {
    const Family& of = family(encoded);
    fs::remove_all(scratch_ / "encoded");
    fs::rename(assembled(of), scratch_ / "encoded");
    assembled(family(trained));
    std::string job = encode("latents", of, set, more);
    job.replace(job.find("/published'"), 11, "/encoded'");
    return said(job + train("dit", "latents", family(trained).experts[0]));
  };
  const auto line = [&](const std::string& differences) {
    return AllOf(
        HasSubstr(
            fmt::format("job 'dit': job 'latents' makes other latents or texts than {}/published reads: "
                        "{} (its values in brackets); give both jobs the same pipeline\n",
                        scratch_.string(), differences)),
        ResultOf([](const std::string& all) { return std::count(all.begin(), all.end(), '\n'); }, 1));
  };
  EXPECT_THAT(with("t2v", "i2v"),
              line("image_encoder = \"none\" (\"clip-vision\"), first_frame = false (true)"));
  EXPECT_THAT(with("i2v", "t2v"),
              line("image_encoder = \"clip-vision\" (\"none\"), first_frame = true (false)"));
  EXPECT_THAT(with("i2v", "flf2v"), line("last_frame = false (true)"));
  // Predict 2 has Wan's tokenizer, and another text encoder of the same width.
  EXPECT_THAT(with("cosmos2_v2w", "t2v"), HasSubstr("reads: text = \"t5\" (\"umt5\")"));
  EXPECT_THAT(with("t2w", "v2w"), "");
  EXPECT_THAT(with("t2w", "t2v"),
              HasSubstr("text = \"t5\" (\"umt5\"), tokenizer = \"cosmos\" (\"wan\"), sigma_data"));
  EXPECT_THAT(with("t2v", "t2v", "scale = 'channel'\n"), line("scale = \"channel\" (\"none\")"));
  EXPECT_EQ(with("t2v", "a14b_t2v"), "") << "the same autoencoder and text encoder";
  EXPECT_EQ(with("t2v", "ti2v"), "");
}

// The same class with another configuration, and a model that the job names itself.
TEST_F(PublishedFolder, OfAnotherConfigurationOrWithoutPicturesIsRefused) {
  const Family &text = family("t2v"), &picture = family("i2v");
  const fs::path set = shards("shards", "red sea");
  fs::rename(assembled(text), scratch_ / "encoded");
  const fs::path config = assembled(text) / "vae" / "config.json";
  json vae = json::parse(std::ifstream(config));
  vae["latents_mean"] = {0.3, -0.25};
  std::ofstream(config) << vae.dump();
  std::string job = encode("latents", text, set);
  job.replace(job.find("/published'"), 11, "/encoded'");
  const char* differs = "reads: tokenizer.latents_mean = [0.3,-0.2] ([0.3,-0.25]) (its values";
  EXPECT_THAT(said(job + train("dit", "latents")), HasSubstr(differs));
  // The network is the train job's, the decoder would be the generate job's.
  const std::string network =
                        fmt::format("model = 'wan'\nloss = 'flow'\nweights = '{}/published/transformer'\n",
                                    scratch_.string()),
                    trained = in_place_of_folder(train("dit", "latents"), network);
  EXPECT_EQ(said(job + trained), "");
  EXPECT_THAT(said(job + trained + generate("video", text, "'dit'")), HasSubstr(differs));
  assembled(picture);
  EXPECT_THAT(said(job + trained),
              HasSubstr("model/wan reads a picture among its channels, and job 'latents' stores none "
                        "with its latents; set first_frame = true there"));
}

// Given frames are the train job's to say, once it has trained the network.
TEST_F(PublishedFolder, OfTextsAloneTakesAPictureOnceItIsTrainedWithGivenFrames) {
  const Family& of = family("t2v");
  assembled(of);
  const std::string set = encode("latents", of, shards("shards", "red sea")),
                    rate = "learning_rate = 1e-300\n",
                    video = generate("video", of, "'dit'",
                                     fmt::format("image = '{}'\n", oracle("wan_i2v/first.png").string()));
  EXPECT_THAT(said(set + train("dit", "latents") + video),
              HasSubstr("begins with a text alone; leave `image` out"));
  EXPECT_EQ(said(set + train("dit", "latents", "", rate + "condition_frames = [0, 1]\n") + video), "");
}

// Cosmos Predict 1 scales its time positions by the rate of each clip.
TEST_F(PublishedFolder, OfLatentsWithoutRatesWarns) {
  const Family& of = family("t2w");
  assembled(of);
  const std::string
      with = encode("latents", of, shards("shards", "red sea")),
      without = encode("latents", of, scratch_ / "shards", "signals = []\n"), job = train("dit", "latents"),
      line =
          "dit: the model scales its positions by the frame rate, and the job latents keeps none, so "
          "every clip counts as one of 24 frames a second; add signals = [\"fps\"] there";
  EXPECT_THAT(warnings([&] { perform(read(with + job)); }), Not(HasSubstr("frame rate")));
  fs::remove_all(scratch_ / "latents");
  fs::remove_all(scratch_ / "dit");
  EXPECT_THAT(warnings([&] { perform(read(without + job)); }), HasSubstr(line));
}

// Clips of 16:9 in windows of 1:4 lose most of their picture.
TEST_F(PublishedFolder, OfClipsThatAreMostlyCutOffNamesThem) {
  const Family& of = family("t2v");
  assembled(of);
  std::string job = encode("latents", of, shards("shards", "red sea"));
  job.replace(job.find("height = 32"), 11, "height = 64").replace(job.find("width = 48"), 10, "width = 16");
  const std::string log = warnings([&] { perform(read(job)); });
  EXPECT_THAT(log, HasSubstr("latents: a: 8"));
  EXPECT_THAT(log, HasSubstr("% of the picture is cut off, because its shape is not that of 16 x 64 pixels"));
}

class TrainedExperts : public PublishedTraining {
 protected:
  void SetUp() override {
    PublishedTraining::SetUp();
    assembled(family("a14b_t2v"));
  }
  static constexpr const char* kRate = "learning_rate = 0.01\n";
};

// In whatever way they are named; the folder of the train job is enough.
TEST_F(TrainedExperts, ReplaceTheirOwnAndLeaveTheOther) {
  const Family& of = family("a14b_t2v");
  const std::string low = fmt::format("weights_2 = '{}/low/weights.safetensors'\n", scratch_.string()),
                    both = fmt::format("weights = '{}/high/weights.safetensors'\n", scratch_.string()) + low;
  std::string jobs = generate("published-video", of) + encode("latents", of, shards("shards", "red sea")) +
                     train("high", "latents", "high", kRate) + train("low", "latents", "low", kRate) +
                     generate("of-low", of, "'low'") + generate("by-weights", of, "", low) +
                     generate("of-both", of, "['high', 'low']") + generate("by-both-weights", of, "", both);
  std::string alone = generate("without-folder", of, "'low'",
                               "sampler = { use = 'unipc', steps = 5, shift = 3.0, convention = 'diffusers' "
                               "}\nguidance = 5.0\ntokenizer = 'wan'\ntokenizer_weights = '" +
                                   (scratch_ / "published" / "vae").string() + "'\n");
  alone = in_place_of_folder(alone, "pipeline = ''\n");
  alone.erase(alone.find("steps = 5\nframes"), 10);
  perform(read(jobs + alone));
  const auto apart = [&](const char* a, const char* b) { return test::difference(latent(a), latent(b)); };
  EXPECT_EQ(apart("of-low", "by-weights"), 0);
  EXPECT_EQ(apart("of-both", "by-both-weights"), 0);
  EXPECT_EQ(apart("of-low", "without-folder"), 0);
  EXPECT_GT(apart("of-low", "published-video"), 1e-4);
  EXPECT_GT(apart("of-both", "of-low"), 1e-4);
}

TEST_F(TrainedExperts, ThatContradictAreRefused) {
  const Family& of = family("a14b_t2v");
  const auto with = [&](const std::string& trainings, const std::string& video) {
    return said(encode("latents", of, fs::path(KINORA_TEST_DATA)) + trainings + video);
  };
  EXPECT_THAT(
      with(train("a", "latents", "low") + train("b", "latents", "low"), generate("video", of, "['a', 'b']")),
      HasSubstr("input: jobs 'a' and 'b' both trained the expert for low noise; name one of them"));
  EXPECT_THAT(with(train("a", "latents"), ""),
              HasSubstr("two experts; say which of them to train: expert = \"high\" or \"low\""));
  EXPECT_THAT(with(train("a", "latents", "both") + train("a-low", "latents", "low"), ""),
              HasSubstr("two jobs have the name 'a-low'; rename one"));
  EXPECT_THAT(with(train("a", "latents", "both", "weights = 'x'\n"), ""),
              HasSubstr("weights = \"x\" are of one expert, and expert = \"both\"; write two train jobs"));
  const std::string plain =
      in_place_of_folder(train("a", "latents"),
                         fmt::format("model = 'wan'\nloss = 'flow'\nweights = '{}/published/transformer_2'\n",
                                     scratch_.string()));
  EXPECT_EQ(with(plain, generate("video", of, "'a'")), "") << "its weights say which";
  EXPECT_THAT(
      with(fmt::format(
               "[[job]]\nname = 'a'\nkind = 'train'\ninput = 'latents'\nexpert = 'low'\nmodel = 'wan'\nloss "
               "= 'flow'\nweights = '{}/published/transformer'\n",
               scratch_.string()),
           ""),
      HasSubstr("expert is for jobs with pipeline"));
}

}  // namespace
}  // namespace kinora::core
