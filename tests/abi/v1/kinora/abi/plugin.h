/* kinora/abi/plugin.h: the one symbol that a plugin library exports.                          since ABI 1.0
 *
 * The library of plugin NAME is libNAME.so. plugin.toml is in its folder; the same text may be in the library's
 * ELF section ".kinora.manifest" too. The host reads it first and opens the library only when one of its
 * components is used (see sdk/README.md, "The manifest").
 *
 * A library stays loaded until the process ends, and nothing tells it of that end: what must be finished is finished
 * in destroy(), or earlier. What kinora_plugin_entry returns (tables, names) lives as long as the library. Threads
 * that a call starts have ended when it returns; those of an instance have ended when destroy() returns. A plugin
 * leaves the process as it found it: signal handlers, umask, working directory, floating-point modes, locale. */
#ifndef KINORA_ABI_PLUGIN_H
#define KINORA_ABI_PLUGIN_H
#include "kinora/abi/host.h"
KINORA_EXTERN_C_BEGIN

typedef struct kinora_component {
  uint32_t struct_size;
  uint32_t reserved;
  /* "sampler/acme.heun": kind/name, unique in the plugin. A published component is best called vendor.name:
   * Kinora may take over a name without a vendor. It reserves these first words of a stage's name: caption,
   * clip, dedup, embed, filter, shard, shots, text, video. */
  const char* id;
  const char* interface_id; /* "kinora.sampler/1" */
  const void* api; /* function table of that interface, for example const kinora_sampler*; constant */
  /* [any-thread] Writes the component's [[component]] entry of plugin.toml; null if the manifest is written
   * by hand. */
  int32_t (*describe)(const kinora_sink* out);
  /* [any-thread] Further tables of functions of this component by id ("vendor.name/1"), for those who know
   * them; null, without an error message, for an unknown id. Null: it has none. */
  const void* (*get_interface)(const char* id, uint32_t minor);
} kinora_component;

typedef struct kinora_plugin {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor; /* the oldest minor that it needs */
  uint32_t n_components;
  const char* name;                   /* as in plugin.toml */
  const char* version;                /* semantic version of the plugin */
  const kinora_component* components; /* an array; the stride is their struct_size, the same in all */
} kinora_plugin;

/* [owner-thread] Called once, right after the library was opened. The plugin may keep `host`. Returns null
 * after host->set_error() if the plugin cannot work here; only this plugin is then disabled. */
typedef const kinora_plugin* (*kinora_plugin_entry_fn)(const kinora_host* host);
#define KINORA_PLUGIN_ENTRY "kinora_plugin_entry"
#if defined(__GNUC__)
#define KINORA_EXPORT __attribute__((visibility("default")))
#else
#define KINORA_EXPORT
#endif

KINORA_SLOT(kinora_component, struct_size, 0);
KINORA_SLOT(kinora_component, reserved, 4);
KINORA_SLOT(kinora_component, id, 8);
KINORA_SLOT(kinora_component, interface_id, 16);
KINORA_SLOT(kinora_component, api, 24);
KINORA_SLOT(kinora_component, describe, 32);
KINORA_SLOT(kinora_component, get_interface, 40);
KINORA_SIZE(kinora_component, 48);
KINORA_SLOT(kinora_plugin, struct_size, 0);
KINORA_SLOT(kinora_plugin, abi_major, 4);
KINORA_SLOT(kinora_plugin, abi_minor, 8);
KINORA_SLOT(kinora_plugin, n_components, 12);
KINORA_SLOT(kinora_plugin, name, 16);
KINORA_SLOT(kinora_plugin, version, 24);
KINORA_SLOT(kinora_plugin, components, 32);
KINORA_SIZE(kinora_plugin, 40);
KINORA_EXTERN_C_END
#endif
