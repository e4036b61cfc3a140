# SPDX-License-Identifier: Apache-2.0
#
#   engine    static library: everything that runs in the Node process
#   glovebox  the addon: binding and engine in one file
#   launcher  static executable: keeper, launcher and init are its three roles
#   join      freestanding library that an interpreter loads to enter a box
{
  'variables': {
    # CI sets GLOVEBOX_WERROR=1. A user's newer compiler must not fail the build
    # over a warning that ours does not know.
    'werror%': '<!(test "$GLOVEBOX_WERROR" = 1 && echo yes || echo no)',
    # scripts/asan.js sets GLOVEBOX_SANITIZE=1: engine and addon then report
    # errors of memory and undefined behaviour. Not the launcher, which is
    # static, and not join, which has no libc.
    'sanitize%': '<!(test "$GLOVEBOX_SANITIZE" = 1 && echo yes || echo no)',
    'sanitizers': [
      '-fsanitize=address,undefined',
      '-fno-sanitize-recover=undefined',
    ],
  },

  'target_defaults': {
    'include_dirs': ['src'],
    'cflags': [
      '-Wall', '-Wextra', '-Wformat=2',
      '-fvisibility=hidden',
      '-fstack-protector-strong',
    ],
    'cflags_c': [
      '-std=gnu17',
      # Given without a value, so that a file may define it as well.
      '-D_GNU_SOURCE=',
      '-Wstrict-prototypes', '-Wmissing-prototypes', '-Wswitch-enum',
      # Not for C++: node-addon-api's own headers shadow.
      '-Wshadow',
    ],
    'ldflags': ['-Wl,-z,relro,-z,now', '-Wl,-z,noexecstack'],
    'conditions': [
      ['werror=="yes"', {'cflags': ['-Werror']}],
    ],
    'configurations': {
      'Release': {
        # Ubuntu's compiler defines it already, hence -U first. It needs an
        # optimising build, so Debug goes without.
        'cflags': ['-U_FORTIFY_SOURCE', '-D_FORTIFY_SOURCE=2'],
      },
    },
  },

  'targets': [
    {
      'target_name': 'engine',
      'type': 'static_library',
      'sources': ['<!@(node scripts/sources.js .c src/engine src/common)'],
      'link_settings': {
        # The archive, not the shared library: the built addon then needs
        # nothing of the machine it is copied to.
        'libraries': ['-l:libseccomp.a', '-ldl'],
      },
      'conditions': [
        ['sanitize=="yes"', {
          'cflags': ['<@(sanitizers)', '-g', '-fno-omit-frame-pointer'],
          # AddressSanitizer does not see what the checked functions do.
          'configurations': {
            'Release': {'cflags!': ['-D_FORTIFY_SOURCE=2']},
          },
        }],
      ],
    },
    {
      'target_name': 'glovebox',
      'sources': ['<!@(node scripts/sources.js .cc src/binding)'],
      'defines': [
        'NAPI_VERSION=8',
        'GBX_VERSION="<!(node -p "require(\'./package.json\').version")"',
      ],
      'dependencies': [
        'engine',
        '<!(node -p "require(\'node-addon-api\').targets"):node_addon_api',
      ],
      # Two addons in one process may both carry a libseccomp; neither may see
      # the other's.
      'ldflags': ['-Wl,--exclude-libs,ALL'],
      'conditions': [
        ['sanitize=="yes"', {
          'cflags': ['<@(sanitizers)', '-g', '-fno-omit-frame-pointer'],
          'ldflags': ['<@(sanitizers)'],
          # AddressSanitizer does not see what the checked functions do.
          'configurations': {
            'Release': {'cflags!': ['-D_FORTIFY_SOURCE=2']},
          },
        }],
      ],
    },
    {
      'target_name': 'launcher',
      'type': 'executable',
      'sources': ['<!@(node scripts/sources.js .c src/launcher src/common)'],
      # It runs in the user's root filesystem view, before and after
      # pivot_root: no loader, no shared library, no thread.
      'cflags!': ['-pthread'],
      'ldflags!': ['-rdynamic', '-pthread'],
      'ldflags': ['-static'],
    },
    {
      'target_name': 'join',
      'type': 'shared_library',
      'product_prefix': '',
      'product_dir': '<(PRODUCT_DIR)',
      'sources': ['<!@(node scripts/sources.js .c src/join)'],
      # No libc: programs of any libc load it.
      'cflags!': ['-pthread', '-fstack-protector-strong'],
      'cflags': ['-ffreestanding', '-fno-stack-protector'],
      'ldflags!': ['-rdynamic', '-pthread'],
      'ldflags': ['-nostdlib', '-nostartfiles', '-Wl,--no-undefined', '-Wl,--hash-style=both'],
      'configurations': {
        'Release': {
          'cflags!': ['-D_FORTIFY_SOURCE=2'],
        },
      },
    },
  ],
}
