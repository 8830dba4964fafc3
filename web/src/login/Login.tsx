/** Sign-in with a token or an API key. */
import { useState, type FormEvent } from "react";
import { ProblemError } from "../api/client";
import { errorMessage, loadUser, REFUSED, signIn, useAppStore } from "../app/appStore";

/** The page of a person whom the application around timeloom does not recognize; only that application can change it. */
export function SignedOutOfApp() {
  return (
    <main className="login">
      <form onSubmit={(event) => (event.preventDefault(), void loadUser())}>
        <img src="./icon.svg" alt="" width="48" height="48" />
        <h1>You are signed out</h1>
        <p>Sign in to the application that this page belongs to. Then come back and try again.</p>
        <button type="submit" className="primary">Try again</button>
      </form>
    </main>
  );
}

export function Login() {
  const hasFailed = useAppStore((state) => state.authState === "failed");
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(window.location.hash === REFUSED ? INVALID : "");
  const [isBusy, setIsBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setIsBusy(true);
    setProblem("");
    try {
      await signIn(token.trim());
    } catch (error) {
      setProblem(error instanceof ProblemError && error.status === 401 ? INVALID : errorMessage(error));
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)}>
        <img src="./icon.svg" alt="" width="48" height="48" />
        <h1>timeloom</h1>
        <p>{hasFailed ? "The server is unreachable, or it refused access." : "Enter the token that the server printed at startup, or your API key."}</p>
        <label htmlFor="token">Token</label>
        <input id="token" type="password" autoComplete="current-password" autoFocus value={token} onChange={(event) => setToken(event.target.value)} />
        {problem && <p role="alert" className="wrong">{problem}</p>}
        <button type="submit" className="primary" disabled={!token.trim() || isBusy}>Sign in</button>
      </form>
    </main>
  );
}

const INVALID = "This token or key is not valid. A server without keys prints a new token at each start; an API key may have been revoked.";
