// stage/embed.endpoint: embeds captions with an OpenAI-compatible server.
#include "answers.hpp"
#include "asking_stage.hpp"
#include "kinora/npy.hpp"
#include "kinora/plugin.hpp"

namespace kinora::endpoint {

class EmbedEndpoint final : public AskingStage {
 public:
  struct Options : ServerOptions {
    Options() { model = "text-embedding-3-small"; }
    std::string name = "caption", prefix;
    int64_t dimensions = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("embed.endpoint")
        .help("Embeds captions with an OpenAI-compatible server: vectors of norm 1, as field NAME.npy");
    d.option("name", &Options::name).help("name of the output field, without .npy");
    d.option("prefix", &Options::prefix)
        .help("text before the caption, if the model expects one (\"passage: \")");
    d.option("dimensions", &Options::dimensions)
        .range(0, 1 << 20)
        .help("vector size requested from the server; 0: the model's own");
    describe_server(d);
  }
  explicit EmbedEndpoint(const Options& o) : AskingStage("embed.endpoint", o, "/embeddings"), options_(o) {
    if (o.name.empty() || o.name.find_first_of("/. ") != std::string::npos)
      throw Error(KINORA_ERROR_INVALID, "embed.endpoint: name '" + o.name +
                                            "' must not be empty or contain a slash, a dot or a space");
  }

 private:
  std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) override {
    const std::string text = options_.prefix + std::string(caption_of(in, "embed"));
    const Question question{std::string(in.key()), [&] { return body(text); },
                            static_cast<int64_t>(text.size() / 4 + 1)};
    const auto vector = embedding_of(ask(question, facts, run));
    if (options_.dimensions > 0 && static_cast<int64_t>(vector.size()) != options_.dimensions)
      throw Error(KINORA_ERROR_DATA, "requested " + std::to_string(options_.dimensions) +
                                         " dimensions, the server returned " + std::to_string(vector.size()) +
                                         "; set dimensions = 0 if the model has a fixed size");
    in.set((options_.name + ".npy").c_str(), to_npy(vector, {static_cast<int64_t>(vector.size())}));
    note_embedding(facts, options_.name, options_.model, static_cast<int64_t>(vector.size()));
    return std::nullopt;
  }

  std::string body(const std::string& text) const {
    Json request{{"model", options_.model}, {"input", text}, {"encoding_format", "float"}};
    if (options_.dimensions > 0) request["dimensions"] = options_.dimensions;
    return client().body(std::move(request));
  }

  Options options_;
};

}  // namespace kinora::endpoint

using kinora::endpoint::EmbedEndpoint;
KINORA_COMPONENT(EmbedEndpoint)
