/** The kinds of values that settings have. Each reads one text and says what it accepts when it cannot. */
import { isIP } from "node:net";
import { type LogFilter, parseLogFilter, renderLogFilter } from "./log-filter.ts";

export interface SettingKind<T> {
  /** Stands for the value in help texts: `N`, `HOST:PORT`. Empty for a switch, whose flag takes no value. */
  readonly placeholder: string;
  /** Completes "accepted is …". */
  readonly accepted: string;
  /** The value, or `undefined` when the text is not of this kind. */
  readonly parse: (text: string) => T | undefined;
  /** What is wrong with a text that `parse` does not read, where more can be said than what is accepted. */
  readonly explain?: (text: string) => string;
  /** The value as one would type it; absent: as JavaScript writes it. A method, so that kinds of different values are one type. */
  render?(value: T): string;
}

/** Any text that is not empty. */
export function text(placeholder: string, accepted: string): SettingKind<string> {
  return { placeholder, accepted, parse: (value) => (value === "" ? undefined : value) };
}

/** A whole number, both bounds included. */
export function integer(min: number, max: number): SettingKind<number> {
  return {
    placeholder: "N",
    accepted: `a whole number from ${min} to ${max}`,
    parse(value) {
      const number = Number(value);
      return /^-?\d+$/.test(value) && number >= min && number <= max ? number : undefined;
    },
  };
}

/** On or off. On the command line the bare flag means on. */
export const toggle: SettingKind<boolean> = {
  placeholder: "",
  accepted: "true or false",
  parse(value) {
    const lower = value.toLowerCase();
    if (lower === "true" || lower === "1") return true;
    return lower === "false" || lower === "0" ? false : undefined;
  },
};

/** One of a few words. */
export function oneOf<const T extends string>(...words: readonly T[]): SettingKind<T> {
  return {
    placeholder: words.join("|"),
    accepted: `one of ${words.join(", ")}`,
    parse: (value) => words.find((word) => word === value),
  };
}

const MS_OF_UNIT: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** A length of time with its unit, read to milliseconds; both bounds, in milliseconds, included. */
export function duration(minMs: number, maxMs: number): SettingKind<number> {
  return {
    placeholder: "DURATION",
    accepted: `a duration from ${renderDuration(minMs)} to ${renderDuration(maxMs)}, such as 500ms, 10s, 5m or 1h`,
    parse(value) {
      const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(value) ?? [];
      const ms = Number(amount) * (MS_OF_UNIT[unit] ?? Number.NaN);
      return ms >= minMs && ms <= maxMs ? ms : undefined;
    },
    render: renderDuration,
  };
}

function renderDuration(ms: number): string {
  const unit = ["h", "m", "s"].find((name) => ms > 0 && ms % (MS_OF_UNIT[name] ?? 1) === 0) ?? "ms";
  return `${ms / (MS_OF_UNIT[unit] ?? 1)}${unit}`;
}

/** Where to listen. */
export interface SocketAddress {
  /** Without the brackets of an IPv6 literal. */
  readonly host: string;
  /** 0 has the system choose. */
  readonly port: number;
}

/** `host:port`, with brackets around an IPv6 address. */
export function renderSocketAddress({ host, port }: SocketAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** `HOST:PORT`, `[IPV6]:PORT`, or `:PORT` for every address of the machine. */
export const socketAddress: SettingKind<SocketAddress> = {
  placeholder: "HOST:PORT",
  accepted: "HOST:PORT, [IPV6]:PORT or :PORT with a port from 0 to 65535",
  parse(value) {
    const [, ipv6, name = "", port] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:\s/]*)):(\d{1,5})$/.exec(value) ?? [];
    if (port === undefined || Number(port) > 65_535) return undefined;
    return { host: ipv6 ?? (name === "" ? "::" : name), port: Number(port) };
  },
  render: renderSocketAddress,
};

/** An IP address without a port; IPv6 without brackets. */
export const ipAddress: SettingKind<string> = {
  placeholder: "IP",
  accepted: "an IP address such as 127.0.0.1 or ::1",
  parse: (value) => (isIP(value) === 0 ? undefined : value),
};

/** A Unix socket to listen at. */
export interface UnixAddress {
  /** Of its file. */
  readonly path: string;
}

/** `unix:/path`, or what `socketAddress` takes. */
export const listenAddress: SettingKind<SocketAddress | UnixAddress> = {
  placeholder: "HOST:PORT|unix:PATH",
  accepted: `${socketAddress.accepted}, or unix:/path of a socket`,
  parse: (value) =>
    /^unix:\/[^\0]+$/.test(value) ? { path: value.slice("unix:".length) } : socketAddress.parse(value),
  render: renderListenAddress,
};

/** As `listenAddress`, but `:PORT` is 127.0.0.1: who wants more than loopback has to say so. */
export const loopbackListenAddress: SettingKind<SocketAddress | UnixAddress> = {
  ...listenAddress,
  parse: (value) => listenAddress.parse(value.startsWith(":") ? `127.0.0.1${value}` : value),
};

/** As `listenAddress` reads it. */
export function renderListenAddress(address: SocketAddress | UnixAddress): string {
  return "path" in address ? `unix:${address.path}` : renderSocketAddress(address);
}

/** IP addresses with ports, separated by commas: `127.0.0.1:8081,[::1]:8081`. */
export const ipSocketAddresses: SettingKind<readonly SocketAddress[]> = {
  placeholder: "IP:PORT,…",
  accepted: "IP:PORT or [IPV6]:PORT, separated by commas",
  parse(value) {
    const addresses = value.split(",").map((each) => socketAddress.parse(each.trim()));
    const isSound = (each: SocketAddress | undefined): each is SocketAddress =>
      each !== undefined && isIP(each.host) !== 0 && each.port > 0;
    return addresses.every(isSound) ? addresses : undefined;
  },
  render: (addresses) => addresses.map(renderSocketAddress).join(","),
};

/** A value of a kind as one would type it. */
export function renderSetting<T>(kind: SettingKind<T>, value: T): string {
  return kind.render === undefined ? String(value) : kind.render(value);
}

/** What is logged; a directive must name one of `modules`, or one above. */
export function logFilter(modules: readonly string[]): SettingKind<LogFilter> {
  const read = (value: string) => parseLogFilter(value, modules);
  return {
    placeholder: "FILTER",
    accepted: "a log filter such as info or info,proxy::config=debug",
    parse(value) {
      const filter = read(value);
      return filter.ok ? filter.value : undefined;
    },
    explain(value) {
      const filter = read(value);
      return filter.ok ? "" : filter.problems.map(({ message }) => message).join("; ");
    },
    render: renderLogFilter,
  };
}

/** A setting that may be missing: its value is `undefined` then. */
export function optional<T>(kind: SettingKind<T>): SettingKind<T | undefined> & { readonly isOptional: true } {
  return { ...kind, isOptional: true };
}

/** What can be switched off: its value is `"off"` then. */
export function orOff<T>(kind: SettingKind<T>): SettingKind<T | "off"> {
  return {
    placeholder: `${kind.placeholder}|off`,
    accepted: `${kind.accepted}, or off`,
    parse: (value) => (value === "off" ? "off" : kind.parse(value)),
    render: (value) => (value === "off" ? "off" : renderSetting(kind, value)),
  };
}
