// The kinds of component that this host knows: the interface that a component of each kind offers, and its
// table.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

struct kinora_stage;
struct kinora_storage;
struct kinora_engine;
struct kinora_tokenizer;
struct kinora_model;
struct kinora_loss;
struct kinora_sampler;
struct kinora_optimizer;
struct kinora_score;
struct kinora_parallel;
struct kinora_precision;
struct kinora_cache;
struct kinora_source;
struct kinora_collective;

namespace kinora::core {

class JobType;

struct Kind {
  const char* name;       // "sampler": the part of an id before the slash
  const char* interface;  // "kinora.sampler/1"
  uint32_t table_size;    // bytes of the interface's table in ABI 1.0, the minimum for a plugin
  const char* slots;      // names of its functions, in order, from byte 8 on; "?" after one that may be null
  const char* word = "reserved";  // the number at byte 4,
  uint32_t last_known = 0;        // and the largest value of it that this host knows (abi/base.h, rule 11)
  // Drafts that became this interface unchanged, separated by spaces: their plugins keep working.
  const char* was = "";

  // Whether a component that is built for this interface fits.
  bool accepts(std::string_view id) const;
};

std::span<const Kind> kinds();

// Null: unknown.
const Kind* find_kind(std::string_view name);

// "kinora.model/1-draft.1": may change in any release, so that only this very draft fits (rule 12 of base.h).
bool is_draft(std::string_view interface);

// The table of a component of kind "job". It gives a C++ object of this one build of Kinora (tier "host").
struct kinora_job {
  uint32_t struct_size;
  uint32_t reserved;
  const JobType* (*type)();  // [any-thread] constant, lives as long as the library
};
inline constexpr const char* kJobInterface = "kinora.job/host";

// The table of a component of kind "service" (core/plugin/service.hpp), of tier "host" too.
struct kinora_service {
  uint32_t struct_size;
  uint32_t reserved;
  const void* (
      *object)();  // [any-thread] constant, lives as long as the library; its class is known by the component's id
};
inline constexpr const char* kServiceInterface = "kinora.service/host";

// Whether components of this kind are C++ objects of this one build of Kinora, of tier "host".
constexpr bool is_host_kind(std::string_view name) { return name == "job" || name == "service"; }

// The kind of component that has this table.
template <class Table>
inline constexpr const char* kTableKind = nullptr;
#define KINORA_TABLE_KIND(name) \
  template <>                   \
  inline constexpr const char* kTableKind<kinora_##name> = #name
KINORA_TABLE_KIND(stage);
KINORA_TABLE_KIND(storage);
KINORA_TABLE_KIND(engine);
KINORA_TABLE_KIND(tokenizer);
KINORA_TABLE_KIND(model);
KINORA_TABLE_KIND(loss);
KINORA_TABLE_KIND(sampler);
KINORA_TABLE_KIND(optimizer);
KINORA_TABLE_KIND(score);
KINORA_TABLE_KIND(parallel);
KINORA_TABLE_KIND(precision);
KINORA_TABLE_KIND(cache);
KINORA_TABLE_KIND(source);
KINORA_TABLE_KIND(collective);
KINORA_TABLE_KIND(job);
KINORA_TABLE_KIND(service);
#undef KINORA_TABLE_KIND

}  // namespace kinora::core
