//! Objects, prototypes and functions that were not meant for a script.

use backstop_script::Permissions;
use serde_json::json;

use super::tried;

#[tokio::test]
async fn stacks_do_not_hand_out_functions() {
    // QuickJS gives the functions on the stack to whoever formats it; one of ours among them would be the bridge.
    let body = "
        const found = [];
        const format = (_, sites) => { for (const site of sites ?? []) { try { found.push(site.getFunction?.()) } catch {} } return 'x'; };
        try { Error.prepareStackTrace = format } catch {}
        try { Object.defineProperty(Error, 'prepareStackTrace', { value: format }) } catch {}
        for (const Kind of [TypeError, RangeError]) { try { Kind.prepareStackTrace = format } catch {} }
        const poke = () => { const error = new Error('x'); void error.stack; try { Error.captureStackTrace?.(error, poke) } catch {}; return 'x'; };
        poke();
        [1].map(poke); structuredClone({ get a() { return poke(); } });
        const { EventEmitter } = await import('node:events'); new EventEmitter().on('x', poke).emit('x');
        try { fs.readFileSync({ get href() { poke(); return 'file:///x'; }, protocol: 'file:' }) } catch {}
        new EventTarget().dispatchEvent(new Event('x')); const stop = new AbortController(); stop.signal.addEventListener('abort', poke); stop.abort();
        await new Promise((ok) => setTimeout(() => { poke(); ok(); }));
        return found.filter((fn) => typeof fn === 'function' && fn !== poke).length;";
    let (answer, _) = tried(Permissions::default(), body, &json!(null)).await;
    assert_eq!(answer, json!(0));
}

#[tokio::test]
async fn replaced_built_ins_see_no_host_function_that_does_more_than_it_may() {
    // Everything that our code could hand to a built-in goes through here; what is a function is then called.
    let body = "
        const seen = new Set(), add = Set.prototype.add, { apply } = Reflect; let busy = false;
        const note = (value) => { if (busy) return; busy = true; try { if (typeof value === 'function' || (typeof value === 'object' && value !== null)) apply(add, seen, [value]); } finally { busy = false; } };
        for (const proto of [Array.prototype, Map.prototype, Set.prototype, WeakMap.prototype, String.prototype, Function.prototype, Promise.prototype, RegExp.prototype])
            for (const name of Reflect.ownKeys(proto)) {
                const described = Object.getOwnPropertyDescriptor(proto, name);
                if (typeof described.value !== 'function' || name === 'constructor' || (proto === Function.prototype && name === Symbol.hasInstance)) continue;
                const original = described.value;
                try { Object.defineProperty(proto, name, { ...described, value: function (...args) { note(this); for (let i = 0; i < args.length; i++) note(args[i]); return apply(original, this, args); } }); } catch {}
            }
        const set = Object.defineProperty;
        for (const name of ['code', 'path', 'cwd', 'native', 'host', 'call', 'request']) { try { set(Object.prototype, name, { configurable: true, set(value) { note(this); note(value); }, get() { note(this); return undefined; } }) } catch {} }
        const parse = JSON.parse; JSON.parse = (...args) => { const value = parse(...args); note(value); return value; };
        const acts = [() => fs.readFileSync('/etc/hostname'), () => fetch('http://127.0.0.1:9/'), async () => (await import('node:child_process')).execFile('echo', [], note), async () => (await import('node:crypto')).createHash('md5').update('x').digest('hex').length,
            // What a plugin has besides.
            () => api.resolvePath('x'), () => api.logger.info({ x: [1] }), () => api.runtime.system.enqueueSystemEvent('x', { sessionKey: 'chat' }), () => api.on('session_start', note), () => api.config.plugins];
        const all = []; for (const act of acts) { try { all.push(String(await act())) } catch (error) { note(error); all.push('refused') } }
        for (const name of ['code', 'path', 'cwd', 'native', 'host', 'call', 'request']) delete Object.prototype[name];
        let reached = 0, tries = 0;
        for (const value of [...seen]) {
            const list = typeof value === 'function' ? [value] : Reflect.ownKeys(value).map((key) => { try { return value[key] } catch {} }).filter((inner) => typeof inner === 'function');
            for (const fn of list) {
                if (!/native code/.test(Function.prototype.toString.call(fn))) continue;
                for (const args of [['echo', 'null'], ['/etc/hostname', 'r'], ['/etc/hostname'], ['/etc', true]]) { tries++; try { const got = fn(...args); if (got && typeof got === 'object' && ('text' in got || got.length > 20)) reached++; } catch {} }
            }
        }
        return [all[0], all[1], reached];";
    let (answer, _) = tried(Permissions::default(), body, &json!(null)).await;
    assert_eq!(answer, json!(["refused", "refused", 0]), "{answer}");
}

#[tokio::test]
async fn constructors_and_modules_lead_to_no_other_world() {
    let body = "
        const out = [];
        const make = (fn) => { try { return fn.constructor.constructor('return [typeof globalThis.host, typeof globalThis.native, typeof globalThis.require, typeof internals]') } catch (error) { return () => { throw error } } };
        for (const fn of [fs.readFileSync, fetch, setTimeout, process.cwd, (await import('node:os')).homedir]) { try { out.push(make(fn)()) } catch (error) { out.push(error.name) } }
        const kinds = [typeof import.meta.host, Object.keys(await import('node:fs')).includes('host'), typeof fs.default.host];
        const inner = []; for (const name of ['node:globals', 'node:encoding', 'node:inspect', 'node:absent', 'node:fetch', 'backstop:prelude', 'backstop:boot', 'script:entry/../x', '../../x.js', '/etc/hostname', 'file:///etc/hostname', 'data:text/javascript,1'])
            inner.push((await refused(() => import(name))).code !== undefined);
        return { out, kinds, inner };";
    let (answer, _) = tried(Permissions::default(), body, &json!(null)).await;
    for one in answer["out"].as_array().unwrap() {
        assert!(
            one == &json!(["undefined", "undefined", "undefined", "undefined"]) || one.is_string(),
            "{answer}"
        );
    }
    assert_eq!(answer["kinds"], json!(["undefined", false, "undefined"]));
    assert!(answer["inner"].as_array().unwrap().iter().all(|refused| refused == &json!(true)), "{answer}");
}

#[tokio::test]
async fn odd_arguments_get_an_error_and_no_more() {
    let body = "
        const liar = new Proxy({}, { get: (_, key) => key === Symbol.toPrimitive ? () => '/etc/hostname' : key === 'protocol' ? 'file:' : key === 'href' ? 'file:///etc/hostname' : undefined, getPrototypeOf: () => URL.prototype });
        let turn = 0; const fickle = { get href() { return turn++ ? 'file:///etc/hostname' : 'file:///nowhere'; }, protocol: 'file:', hostname: '', get pathname() { return turn++ % 2 ? '/etc/hostname' : '/nowhere'; } };
        const odd = [liar, fickle, new String('/etc/hostname'), ['/etc/hostname'], { __proto__: null }, Symbol('x'), 5n, -1, 3, 1e10, NaN, new Proxy(new Uint8Array(3), {}), Object.create(URL.prototype), Buffer.alloc(5), '\\ud800'];
        const all = []; for (const path of odd) for (const act of [fs.readFileSync, fs.statSync, fs.readdirSync]) all.push((await refused(() => act(path))).got === undefined);
        all.push((await refused(() => fs.readSync(0, Buffer.alloc(3)))).got === undefined, (await refused(() => fs.closeSync(1))).got === undefined, (await refused(() => fs.readFileSync(0))).got === undefined);
        const own = JSON.parse('{\"__proto__\": {\"encoding\": \"utf8\"}}'); all.push((await refused(() => fs.readFileSync('/etc/hostname', own))).got === undefined);
        return all;";
    let (answer, _) = tried(Permissions::default(), body, &json!(null)).await;
    assert!(answer.as_array().unwrap().iter().all(|refused| refused == &json!(true)), "{answer}");
}
