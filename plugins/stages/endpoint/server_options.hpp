// Options of this plugin's stages for their server, requests and frames.
#pragma once
#include <cstdint>
#include <string>

#include "kinora/options.hpp"

namespace kinora::endpoint {

struct ServerOptions {
  std::string base_url = "http://127.0.0.1:8000/v1";
  std::string model = "Qwen/Qwen2.5-VL-7B-Instruct";
  std::string api_key_env, ca_file, extra;
  int64_t concurrency = 8, requests_per_minute = 0, tokens_per_minute = 0;
  int64_t retries = 3;
  double backoff = 1, longest_wait = 120, timeout = 180, connect_timeout = 10;
  int64_t answer_size = 1 << 20;
  double price_prompt = 0, price_completion = 0;
  std::string on_error = "fail";
};

template <class Options>
void describe_server(Describe<Options>& d) {
  d.option("base_url", &Options::base_url)
      .help("URL of an OpenAI-compatible server, with its version: https://api.openai.com/v1");
  d.option("model", &Options::model).required().help("name of the model on the server");
  d.option("api_key_env", &Options::api_key_env)
      .help("environment variable that holds the key, such as OPENAI_API_KEY; empty: none is sent");
  d.option("ca_file", &Options::ca_file).path().help("certificates to trust; empty: the system's");
  d.option("extra", &Options::extra)
      .help("JSON object whose members are added to each request, such as {\"top_p\": 0.9}");
  d.option("concurrency", &Options::concurrency)
      .range(1, 1024)
      .help("most requests at once, over all stages with this server, model and limits");
  d.option("requests_per_minute", &Options::requests_per_minute)
      .range(0, 1e6)
      .help("most requests per minute, evenly spaced; 0: no limit");
  d.option("tokens_per_minute", &Options::tokens_per_minute)
      .range(0, 1e9)
      .help("most tokens per minute, prompt and completion together; 0: no limit");
  d.option("retries", &Options::retries)
      .range(0, 100)
      .help(
          "further attempts after a lost connection, a timeout, 408, 409, 425, 429, 5xx, an error in the "
          "answer, or an answer that is empty or not complete");
  d.option("backoff", &Options::backoff)
      .range(0, 3600)
      .unit("s")
      .help("wait before the first further attempt, doubled each time; shortened at random by up to half");
  d.option("longest_wait", &Options::longest_wait)
      .range(0, 86400)
      .unit("s")
      .help("longest wait between attempts; a server that asks for a longer one is an error");
  d.option("timeout", &Options::timeout)
      .range(0.01, 86400)
      .unit("s")
      .help("time limit of one request, including its answer");
  d.option("connect_timeout", &Options::connect_timeout)
      .range(0.01, 3600)
      .unit("s")
      .help("time limit for connecting");
  d.option("answer_size", &Options::answer_size)
      .bytes()
      .at_least(1024)
      .help("largest answer; a larger one is an error");
  d.option("price_prompt", &Options::price_prompt)
      .at_least(0)
      .help("price of a million prompt tokens, for the cost totals");
  d.option("price_completion", &Options::price_completion)
      .at_least(0)
      .help("price of a million completion tokens, for the cost totals");
  d.option("on_error", &Options::on_error)
      .choices({"fail", "keep"})
      .help("treatment of a sample without a usable answer; keep: emit it, with the reason in its facts");
}

struct ChatOptions : ServerOptions {
  std::string system;
  int64_t max_tokens = 1024;
  std::string max_tokens_name = "max_tokens";
  double temperature = 0;
  int64_t seed = -1;
  std::string cut = "fail";
};

template <class Options>
void describe_chat(Describe<Options>& d) {
  d.option("system", &Options::system).help("system prompt; empty: none");
  d.option("max_tokens", &Options::max_tokens)
      .range(1, 1 << 20)
      .help("largest number of tokens in an answer");
  d.option("max_tokens_name", &Options::max_tokens_name)
      .choices({"max_tokens", "max_completion_tokens"})
      .help("name of max_tokens in the request; OpenAI's newer models accept only the second");
  d.option("temperature", &Options::temperature)
      .range(-1, 2)
      .help("sampling temperature; -1: the server's own");
  d.option("seed", &Options::seed)
      .range(-1, 2147483647)
      .help("seed of the server's sampling; -1: none is sent");
  d.option("cut", &Options::cut)
      .choices({"fail", "keep"})
      .help("treatment of an answer that ended at max_tokens: as an error, or as a complete answer");
  describe_server(d);
}

struct PictureOptions {
  int64_t quality = 85, max_side = 512, max_frames = 32;
  std::string detail = "auto";
};

template <class Options>
void describe_pictures(Describe<Options>& d) {
  d.option("quality", &Options::quality).range(1, 100).help("quality of the JPEG frames that are sent");
  d.option("max_side", &Options::max_side)
      .range(16, 16384)
      .unit("pixels")
      .help("longest side of the frames that are sent; larger ones are scaled down");
  d.option("max_frames", &Options::max_frames)
      .range(1, 4096)
      .help("most frames in one request; more are thinned out evenly");
  d.option("detail", &Options::detail)
      .choices({"auto", "low", "high"})
      .help("detail in which the server reads a frame; auto sends nothing");
}

// The options of a stage that filters by an answer.
struct FilterOptions {
  std::string mode = "on", form = "json_schema";
};

template <class Options>
void describe_filter(Describe<Options>& d) {
  d.option("mode", &Options::mode)
      .choices({"on", "score"})
      .help("score: filters nothing and records the answer in the facts");
  d.option("form", &Options::form)
      .choices({"json_schema", "json_object", "none"})
      .help("response_format that the server supports");
}

}  // namespace kinora::endpoint
